"""Every rule lets the right inputs through and rejects the wrong ones, with and without unknowns."""

import copy
from typing import Any

import pytest

from cloud.inputs import UNKNOWN
from cloud.services.container import NOT_ON_AUTOPILOT
from rehearsal import rules
from rehearsal.rules import pods, ray
from tests.rehearsal import right

EXCLUSION = "maintenancePolicy.maintenanceExclusions.0"
# By type: where in the right inputs, the wrong value put there, and what the rule must say.
WRONG: dict[str, list[tuple[str, Any, str]]] = {
    right.CLUSTER: [
        ("enableAutopilt", True, "did you mean enableAutopilot"),
        ("addonsConfig.rayOperatorConfigs.0.enable", True, "no enable"),
        ("addonsConfig.rayOperatorConfigs", {"enabled": True}, "expected a list"),
        ("location", ["us-central1"], "expected a single value"),
        ("networkingMode", "ROUTES", "VPC_NATIVE"),
        ("location", "us-central1-a", "is a zone"),
        ("enableAutopilot", False, "starts with a pool"),
        ("clusterIpv4Cidr", "10.0.0.0/14", "conflicts with ipAllocationPolicy"),
        ("releaseChannel.channel", "FAST", "not one of RAPID"),
        ("name", "c" * 41, "1-40"),
        ("resourceLabels", {"Stack": "x"}, "label key"),
        ("resourceLabels", {"stack": "a/b"}, "of label stack"),
        ("nodeConfig", {"machineType": "z9-any-1"}, "z9-any-1 is not in cloud/machines.py"),
        ("nodeLocations", ["europe-west4-a"], "europe-west4-a is no zone of us-central1"),
        ("datapathProvider", "ADVANCED", "not one of ADVANCED_DATAPATH"),
        ("addonsConfig", {}, "is empty"),
        ("privateClusterConfig", {}, "is empty"),
        ("privateClusterConfig.enablePrivateNodes", "yes", "expected true or false"),
        ("maintenancePolicy.recurringWindow", None, "needs exactly one of dailyMaintenanceWindow"),
        ("maintenancePolicy.dailyMaintenanceWindow", {"startTime": "03:00"}, "needs exactly one of"),
        (f"{EXCLUSION}.endTime", "2026-06-01T00:00:00Z", "one of endTime and exclusionOptions.endTimeB"),
        (f"{EXCLUSION}.exclusionOptions.endTimeBehavior", None, "exactly one of endTime"),
        (f"{EXCLUSION}.exclusionOptions.endTimeBehavior", "FOREVER", "not one of UNTIL_END_OF_SUPPORT"),
        (f"{EXCLUSION}.exclusionOptions.scope", "NO_NODE_UPGRADES", "not one of NO_UPGRADES"),
        (f"{EXCLUSION}.startTime", "2026-06-01", "not a moment such as 2026-06-01T00:00:00Z"),
        (f"{EXCLUSION}.endTime", "2026-13-01T00:00:00Z", "not a moment"),
        ("maintenancePolicy.recurringWindow.startTime", "03:00", "not a moment"),
        ("maintenancePolicy.recurringWindow.endTime", "2026-06-01T00:00:00", "not a moment"),
        ("maintenancePolicy.dailyMaintenanceWindow", {"startTime": "3:00"}, "not a time such as 03:00"),
    ],
    right.BUCKET: [
        ("location", None, "missing required"),
        ("location", "us-central-1", "no place such as us-central1"),
        ("publicAccessPrevention", "on", "not one of enforced"),
        ("softDeletePolicy.retentionDurationSeconds", 60, "between 7 and 90 days"),
        ("name", "Bucket", "not a valid name"),
        ("name", "ab", "not a valid name"),
        ("name", "my-google-bucket", "not a valid name"),
        ("labels", {"stack": "x" * 64}, "at most 63"),
        ("location", "us-central1-a", "us-central1-a is a zone"),
        ("storageClass", "COLD", "not one of STANDARD"),
        ("lifecycleRules", [{"action": {"type": "SetStorageClass", "storageClass": "COLD"}}], "not one of"),
    ],
    right.BUCKET_MEMBER: [
        ("member", None, "missing required"),
        ("member", "a@p.iam.gserviceaccount.com", "not a principal"),
        (
            "member",
            "principal://iam.googleapis.com/projects/my-project/locations/global/x",
            "not a principal",
        ),
        ("role", "storage.objectUser", "not a role"),
    ],
    right.RELEASE: [
        ("chrt", "x", "has no chrt"),
        ("chart", None, "missing required"),
    ],
    right.NODE_POOL: [
        # What the real provider lets through, platform.md 11
        ("initialNodeCount", 1, "conflicts with nodeCount"),
        ("namePrefix", "p", "conflicts with name"),
        ("autoscaling", {"minNodeCount": 1, "totalMaxNodeCount": 2}, "conflicts with"),
        ("nodeConfig.reservationAffinity.consumeReservationType", "SPECIFIC", "not one of"),
        ("nodeConfig.reservationAffinity.values", [], "needs key and values"),
        ("nodeConfig.guestAccelerators.0.gpuDriverInstallationConfig.gpuDriverVersion", "NEW", "not one of"),
        ("nodeConfig.guestAccelerators.0.count", 0, "0 is less than 1"),
        ("nodeConfig.workloadMetadataConfig.mode", "METADATA", "not one of"),
        ("placementPolicy", {"type": "SPREAD"}, "not one of COMPACT"),
        ("placementPolicy", {"tpuTopology": "4x4"}, "COMPACT"),
        ("nodeConfig", {"spot": True, "flexStart": True}, "conflicts with"),
        ("nodeConfig.flexStart", True, "a pool of them is autoscaled"),
        ("nodeConfig.flexStart", True, "flex-start needs consumeReservationType NO_RESERVATION"),
        ("queuedProvisioning", {"enabled": True}, "nodes come all together only by flex-start"),
        ("nodeCount", None, "a pool without nodes that nothing scales"),
        ("autoscaling", {"totalMinNodeCount": 4, "totalMaxNodeCount": 3}, "4 is more than"),
        ("nodeConfig.machineType", "g2-standard-48", "g2-standard-48 has 4 nvidia-l4"),
        ("nodeConfig.machineType", "e2-standard-4", "takes no GPUs"),
        ("nodeConfig.machineType", "z9-any-1", "z9-any-1 is not in cloud/machines.py: add it there"),
        ("nodeConfig.machineType", "g2-standard-42", "did you mean g2-standard-4?"),
        ("nodeConfig.resourceLabels", {"Stack": "x"}, "label key"),
        ("nodeConfig.resourceLabels", {"stack": 1}, "expected a text, got 1"),
        ("nodeConfig.taints.0.effect", "NoSchedule", "not one of NO_SCHEDULE"),
        ("nodeConfig.diskSizeGb", 9, "9 is less than 10"),
        ("nodeConfig.diskSizeGb", "100", "expected a number, got '100'"),
        ("nodeCount", -1, "-1 is negative"),
        ("upgradeSettings.maxSurge", -1, "-1 is negative"),
        ("upgradeSettings.strategy", "ROLLING", "not one of SURGE, BLUE_GREEN"),
        ("nodeConfig.diskType", "pd-fast", "not one of pd-standard"),
        ("nodeConfig.maxRunDuration", "7d", "not a duration such as 604800s"),
        ("autoscaling", "text", "expected an object"),
    ],
    right.OBJECT: [
        ("source", {"4dabf18193072939515e22adb298388d": "asset"}, "exactly one of source and content"),
        ("storageClass", "COLD", "not one of STANDARD"),
    ],
    right.ACCOUNT: [("accountId", "short", "6-30"), ("accountId", "a" * 31, "6-30")],
    right.SERVICE: [("service", "gcloud", "not a service name")],
    right.SECRET: [
        ("secretId", "hf.token", "not a valid name"),
        ("replication", {}, "exactly one of auto and userManaged"),
    ],
    right.SECRET_VERSION: [
        ("secretData", None, "exactly one of secretData and secretDataWo"),
        ("secretDataWo", "x", "exactly one of secretData and secretDataWo"),
    ],
    right.REPOSITORY: [
        ("location", "us-central1-a", "us-central1-a is a zone"),
        ("repositoryId", "Images", "not a valid name"),
        ("format", "OCI", "not one of DOCKER"),
        ("cleanupPolicies.1.condition.olderThan", "a month", "not a duration"),
        ("cleanupPolicies.1.condition.tagState", "OLD", "not one of TAGGED, UNTAGGED, ANY"),
        ("vulnerabilityScanningConfig.enablementConfig", "OFF", "not one of INHERITED, DISABLED"),
    ],
    right.NETWORK: [("name", "Net", "not a valid name")],
    right.SUBNETWORK: [
        ("ipCidrRange", None, "a subnetwork needs a range"),
        ("region", "us-central1-a", "us-central1-a is a zone"),
        ("ipCidrRange", "10.0.0.1/20", "invalid CIDR"),
        ("ipCidrRange", "10.0.0.0/30", "smaller than"),
        ("secondaryIpRanges.0.ipCidrRange", "10.0.0.0/24", "overlap"),
        ("secondaryIpRanges.0.rangeName", "Pods", "not a valid name"),
    ],
    right.NAT: [
        ("natIpAllocateOption", "AUTO", "not one of MANUAL_ONLY, AUTO_ONLY"),
        ("sourceSubnetworkIpRangesToNat", "ALL", "not one of"),
        ("minPortsPerVm", 100, "100 is not a power of two from 32 on"),
        ("minPortsPerVm", 16, "16 is not a power of two from 32 on"),
        ("minPortsPerVm", -64, "-64 is less than 0"),
        ("enableEndpointIndependentMapping", True, "conflicts with enableDynamicPortAllocation"),
    ],
    right.RUN_JOB: [
        ("startExecutionToken", "x", "its token runs nothing again"),
        ("runExecutionToken", "x", "its token runs nothing again"),
        ("name", "t" * 50, "1-49"),
        ("template.template.timeout", "10m", "not a duration"),
        ("template.template.timeout", "7200s", "at most 3600s"),
        ("template.template.volumes", [], "not among the volumes"),
        ("template.template.nodeSelector", None, "go together"),
        ("template.template.maxRetries", -1, "-1 is less than 0"),
        ("template.template.vpcAccess.egress", "ALL", "not one of ALL_TRAFFIC"),
    ],
    right.RUN_SERVICE: [
        ("ingress", "ALL", "not one of"),
        ("template.containers.0.startupProbe.initialDelaySeconds", 300, "more than 240"),
        ("template.containers.0.startupProbe.failureThreshold", 181, "more than 1800 s"),
        ("template.containers.0.startupProbe.timeoutSeconds", 20, "more than periodSeconds"),
        ("template.containers.0.resources.limits.cpu", "2", "4 or more"),
        ("template.containers.0.resources.limits.memory", "8Gi", "16Gi or more"),
        ("template.scaling", {"minInstanceCount": 2, "maxInstanceCount": 1}, "maxInstanceCount"),
        ("template.timeout", "5m", "not a duration of at most 3600s"),
        ("template.timeout", "3601s", "not a duration of at most 3600s"),
        ("template.containers.0.startupProbe.periodSeconds", "many", "expected a number, got 'many'"),
    ],
    right.CONFIG_MAP: [
        ("dat", {"a": "b"}, "'dat' was unexpected"),
        ("data", {"train.py": 1}, "not of type"),
        ("metadata.name", "Code_1", "not a valid name"),
        ("metadata.name", "c" * 254, "not a valid name"),
        ("metadata.namespace", "ns.a", "not a valid namespace"),
        ("kind", "ConfgMap", "has no ConfgMap"),
        ("kind", None, "an apiVersion and a kind"),
    ],
    right.NAMESPACE: [("metadata.name", "a.b", "not a valid name of a Namespace")],
    right.KUBE_SERVICE: [
        ("metadata.name", "1service", "not a valid name of a Service"),
        ("spec.ports.0.port", "http", "not of type 'integer'"),
    ],
    right.NETWORK_POLICY: [
        (f"spec.{way}", [{"ports": [{"port": 1024, "endPort": 65535}]}], "opens the first port alone")
        for way in ("ingress", "egress")
    ],
    right.POD: [("spec.containers.0.imge", "x", "'imge' was unexpected")],
    right.DEPLOYMENT: [
        ("spec.replcas", 1, "'replcas' was unexpected"),
        ("spec.selector", None, "'selector' is a required property"),
    ],
    right.RAY_CLUSTER: [
        ("metadata.name", "r" * 54, "1-53 of a-z"),
        ("spec.workerGroupSpecs.0.template.spec.containers.0.imge", "x", "'imge' was unexpected"),
    ],
    right.RAY_JOB: [
        ("metadata.name", "r" * 48, "1-47 of a-z"),
        ("metadata.name", "4b-vision", "a letter first"),
        ("metadata.name", "gemma-3.1-mine", "1-47 of a-z"),
        ("spec.submitterPodTemplate.spec.containers.0.comand", ["x"], "'comand' was unexpected"),
    ],
}


def changed(inputs: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with one value put in at a path, or taken out for None."""
    tree = copy.deepcopy(inputs)
    *steps, last = path.split(".")
    node: Any = tree
    for step in steps:
        node = node[int(step)] if isinstance(node, list) else node[step]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return tree


def reasons(type_token: str, inputs: dict[str, Any]) -> str:
    return "\n".join(f"{path}: {reason}" for path, reason in rules.problems(type_token, inputs))


@pytest.mark.parametrize("type_token", right.RIGHT)
def test_the_right_inputs_pass(type_token: str) -> None:
    assert reasons(type_token, right.RIGHT[type_token]) == ""


@pytest.mark.parametrize(
    ("type_token", "path", "value", "message"),
    [(type_token, *wrong) for type_token, listed in WRONG.items() for wrong in listed],
)
def test_wrong_inputs_are_rejected_with_the_reason(
    type_token: str, path: str, value: Any, message: str
) -> None:
    assert message in reasons(type_token, changed(right.RIGHT[type_token], path, value))


@pytest.mark.parametrize("path", NOT_ON_AUTOPILOT)
def test_what_autopilot_decides_by_itself_conflicts_with_it(path: str) -> None:
    top, _, below = path.partition(".")
    stated = {**right.RIGHT[right.CLUSTER], top: {below: {"enabled": True}} if below else True}
    assert f"{path}: conflicts with enableAutopilot" in reasons(right.CLUSTER, stated)


def test_a_private_address_answers_no_public_network() -> None:
    private = changed(right.RIGHT[right.CLUSTER], "privateClusterConfig.enablePrivateEndpoint", True)
    for block, reason in (("10.0.0.0/8", ""), ("0.0.0.0/0", "0.0.0.0/0 is not a reserved network")):
        networks = {"cidrBlocks": [{"cidrBlock": block}]}
        assert reason in reasons(right.CLUSTER, {**private, "masterAuthorizedNetworksConfig": networks})
    assert reasons(right.CLUSTER, private) == ""


def test_names_of_a_slice_leave_room_for_its_service() -> None:
    sliced = changed(right.RIGHT[right.RAY_JOB], "spec.rayClusterSpec.workerGroupSpecs.0.numOfHosts", 4)
    assert reasons(right.RAY_JOB, changed(sliced, "metadata.name", "r" * 35)) == ""
    assert "1-35 of a-z" in reasons(right.RAY_JOB, changed(sliced, "metadata.name", "r" * 36))


@pytest.mark.parametrize("type_token", right.RIGHT)
def test_values_that_are_not_known_yet_are_not_rejected(type_token: str) -> None:
    structure = ("apiVersion", "kind")
    for key in right.RIGHT[type_token]:
        if key not in structure:
            reason = reasons(type_token, {**right.RIGHT[type_token], key: UNKNOWN})
            assert f"{key}:" not in reason, reason


def test_every_member_form_of_the_documentation_passes() -> None:
    pool = "iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/p.svc.id.goog"
    members = [
        "allUsers",
        "user:a@b.com",
        "group:a@b.com",
        "domain:b.com",
        "serviceAccount:p.svc.id.goog[ns/sa]",
        f"principal://{pool}/subject/ns/ray/sa/finetune",
        f"principalSet://{pool}/namespace/ray",
    ]
    for member in members:
        assert reasons(right.BUCKET_MEMBER, {**right.RIGHT[right.BUCKET_MEMBER], "member": member}) == ""


def test_a_mounted_bucket_needs_the_annotation_that_brings_the_sidecar() -> None:
    volume = {"name": "bucket", "csi": {"driver": pods.GCS_FUSE}}
    template: dict[str, Any] = {"spec": {"containers": [], "volumes": [volume]}}
    (problem,) = pods.problems("spec.template", template)
    assert problem == (
        "spec.template.metadata.annotations",
        'a volume of GCS FUSE needs gke-gcsfuse/volumes: "true"',
    )
    annotated = {**template, "metadata": {"annotations": {"gke-gcsfuse/volumes": "true"}}}
    assert list(pods.problems("spec.template", annotated)) == []


@pytest.mark.parametrize(
    ("memory", "spelling"), [("1024Gi", "1Ti"), ("1.5Gi", "1536Mi"), ("1Ti", ""), ("64Gi", "")]
)
def test_quantities_of_ray_are_written_as_its_operator_writes_them_back(memory: str, spelling: str) -> None:
    container = {"name": "c", "resources": {"limits": {"memory": memory, "cpu": "160"}}}
    group = {"groupName": "g", "template": {"spec": {"containers": [container]}}}
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "job"},
        "spec": {"rayClusterSpec": {"workerGroupSpecs": [group]}},
    }
    messages = [reason for where, reason in ray.problems(job) if where.endswith("limits.memory")]
    assert messages == (
        [f"the operator writes {memory} back as {spelling}, a change in every refresh"] if spelling else []
    )
