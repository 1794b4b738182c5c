"""What must hold of every stack, on the real engine."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cloud.quantity import quantity
from engine.plan import Plan, Planned
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans
from tests.once import once

TOKEN = "hf_planted_in_a_test"
KEY = "key_planted_in_a_test_of_forty_characters"
# Roles that can be given on nothing smaller than a project, and who has them.
WIDE = {
    ("nodes-role", "roles/container.defaultNodeServiceAccount"),
    ("nodes-usage", "roles/serviceusage.serviceUsageConsumer"),
    ("builder-log", "roles/logging.logWriter"),
}


@dataclass(frozen=True)
class Life:
    """What one rehearsal of a stack showed, from the first preview to the end.

    Args:
        plan: The first preview.
        made: What the first `up` made.
        state: The engine's state then, as a text.
        changed_by_nothing: How much a second `up` changed; for a second preview see test_faults.py.
        untouched: Whether everything was still there after a `destroy` that was rejected; None where nothing
            keeps the stack from being destroyed.
        left: Names of what the last `destroy` left.
    """

    plan: Plan
    made: Plan
    state: str
    changed_by_nothing: int
    untouched: bool | None
    left: list[str]


@pytest.fixture(scope="module", params=plans.STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def life(stack: str) -> Life:
    return once(("life", stack), lambda: lived(stack))


def lived(stack: str) -> Life:
    settings = plans.given(stack, hfToken=TOKEN, wandbKey=KEY, imageUri=plans.IMAGE)
    with Rehearsal(stack, settings | plans.given(stack, forceDestroy="false")) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        made, state = plans.made(rehearsal), json.dumps(rehearsal.state())
        changed = rehearsal.up().changed
        untouched = None
        if any(resource.options.get("protect") for resource in plan.resources):
            before = sorted(item.key for item in rehearsal.cloud.items)
            with pytest.raises(RehearsalError, match="protected"):
                rehearsal.destroy()
            untouched = sorted(item.key for item in rehearsal.cloud.items) == before
            rehearsal.configure(settings | plans.given(stack, forceDestroy="true"))
            rehearsal.up()
        rehearsal.destroy()
        return Life(plan, made, state, changed, untouched, [item.name for item in rehearsal.cloud.items])


@pytest.fixture(scope="module")
def plan(life: Life) -> Plan:
    return life.plan


@pytest.fixture(scope="module")
def made(life: Life) -> Plan:
    return life.made


def on_gke(plan: Plan) -> bool:
    return bool(plans.of_type(plan, "container/cluster:Cluster"))


# Identities and what they may do


def test_no_identity_has_a_primitive_role(plan: Plan) -> None:
    given = [role for _, role in plans.roles(plan)]
    assert given
    assert not {"roles/owner", "roles/editor", "roles/viewer"} & set(given)


def test_no_role_is_wider_than_one_bucket_repository_secret_or_service_where_it_can_be(
    stack: str, plan: Plan
) -> None:
    wide = {
        (resource.name.removeprefix(f"{stack}-"), role)
        for resource, role in plans.roles(plan)
        if resource.type == "gcp:projects/iAMMember:IAMMember"
    }
    assert wide <= WIDE


def test_only_accounts_that_the_stacks_own_workloads_run_as_reach_its_buckets(made: Plan) -> None:
    pods = {
        f"ns/{resource.inputs['metadata']['namespace']}/sa/{spec.get('serviceAccountName')}"
        for resource, spec in plans.pods(made)
    }
    tasks = {each for resource in made.resources for each in plans.values(resource.inputs, "serviceAccount")}
    for grant in plans.of_type(made, ":BucketIAMMember"):
        member = grant.inputs["member"]
        assert member.rpartition("/subject/")[2] in pods or member.removeprefix("serviceAccount:") in tasks


def test_nodes_run_as_an_account_of_their_own_that_pulls_and_streams_images_and_no_more(made: Plan) -> None:
    accounts = set(re.findall(r'"serviceAccount": "([^"]*-nodes-[^"]+)"', plans.text(made)))
    assert len(accounts) == int(on_gke(made))
    grants = [each for each, _ in plans.roles(made) if each.inputs["member"].partition(":")[2] in accounts]
    needed = {"roles/container.defaultNodeServiceAccount", "roles/serviceusage.serviceUsageConsumer"}
    given = {each.inputs["role"] for each in grants}
    assert given - {"roles/artifactregistry.reader"} == (needed if accounts else set())
    apis = {each.inputs["service"] for each in plans.of_type(made, "projects/service:Service")}
    assert ("containerfilesystem.googleapis.com" in apis) == on_gke(made)


def test_no_node_exists_before_its_account_has_every_role_of_a_node(plan: Plan) -> None:
    roles = {
        each.urn for each in plans.of_type(plan, "projects/iAMMember:IAMMember") if "-nodes-" in each.name
    }
    for cluster in plans.of_type(plan, ":Cluster"):
        assert roles <= {*cluster.dependencies}


def test_pulumis_suffix_still_fits_into_the_names_of_the_accounts(plan: Plan) -> None:
    for account in plans.of_type(plan, ":Account"):
        assert len(f"{account.name}-1234567") <= 30, account.name


# The token


def test_the_token_is_never_in_plain_text_in_plan_or_state(stack: str, life: Life) -> None:
    assert ("secretData" in life.state) == ("hfToken" in plans.settings_of(stack))
    for secret in (TOKEN, KEY):
        assert secret not in life.plan.as_json()
        assert secret not in life.state


def test_containers_get_the_token_by_reference(plan: Plan) -> None:
    secrets = {"HF_TOKEN": "hf-token", "WANDB_API_KEY": "wandb-key"}
    for name, container in plans.containers(plan):
        for variable in container.get("env", []):
            if secret := secrets.get(variable["name"]):
                assert "value" not in variable, name
                reference = variable["valueFrom"]["secretKeyRef"]
                assert (reference["name"], reference["key"]) == (secret, "token"), name
                assert not reference.get("optional"), name


def test_only_what_trains_on_cloud_run_may_read_secret_manager(stack: str, made: Plan) -> None:
    """Pods have a Kubernetes Secret instead."""
    secrets = [each.inputs["secretId"] for each in plans.of_type(made, "secretmanager/secret:Secret")]
    assert len(secrets) == len({"hfToken", "wandbKey"} & plans.settings_of(stack))
    jobs = plans.of_type(made, "cloudrunv2/job:Job")
    trainers = [each for job in jobs for each in plans.values(job.inputs, "serviceAccount")]
    given = {
        (each.inputs["secretId"], role, each.inputs["member"])
        for each, role in plans.roles(made)
        if each.type.startswith("gcp:secretmanager/")
    }
    reads = "roles/secretmanager.secretAccessor"
    assert given == {(secret, reads, f"serviceAccount:{each}") for secret in secrets for each in trainers}


# Pods


def test_every_pod_has_requests_and_limits(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], name
        assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"]), name


def test_every_image_is_by_digest(made: Plan) -> None:
    images = re.findall(r'"image": "([^"]*)"', plans.text(made))
    assert images
    for image in images:
        assert re.search(r"@sha256:[0-9a-f]{64}$", image)


def test_nothing_runs_privileged_or_as_root(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume], name
    for name, container in plans.containers(plan):
        context = container["securityContext"]
        assert context == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, name


def test_what_a_pod_writes_is_in_a_volume_its_home_included(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        empty = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
        for container in spec["containers"]:
            assert {"name": "HOME", "value": "/tmp"} in container["env"], name
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert mounted.get("/tmp") in empty, name


def test_every_scratch_volume_is_sized_within_what_its_pod_asks_for(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        asked = spec["containers"][0]["resources"]["requests"]
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume:
                kind = "memory" if volume["emptyDir"].get("medium") == "Memory" else "ephemeral-storage"
                assert (quantity(volume["emptyDir"]["sizeLimit"]) or 0) < (quantity(asked[kind]) or 0), name


def test_no_upgrade_of_a_node_or_of_the_minor_version_interrupts_a_run(plan: Plan) -> None:
    for cluster in plans.of_type(plan, "container/cluster:Cluster"):
        (exclusion,) = cluster.inputs["maintenancePolicy"]["maintenanceExclusions"]
        assert exclusion["exclusionOptions"] == {
            "scope": "NO_MINOR_OR_NODE_UPGRADES",
            "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
        }


def test_the_autoscaler_evicts_no_pod_of_a_training_and_may_evict_a_server(plan: Plan) -> None:
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            marks = list(plans.values(resource.inputs, "cluster-autoscaler.kubernetes.io/safe-to-evict"))
            spot = any(plans.values(resource.inputs, "cloud.google.com/gke-spot"))
            trains = resource.type.endswith((":Job", ":RayJob")) and not spot
            pods = sum(each == resource for each, _ in plans.pods(plan))
            assert marks == (["false"] * pods if trains else []), resource.name


def test_an_upgrade_needs_no_machine_that_there_may_not_be(plan: Plan) -> None:
    for pool in plans.of_type(plan, "container/nodePool:NodePool"):
        spare = 0 if _accelerated(pool) else 1
        assert pool.inputs["upgradeSettings"] == {"maxSurge": spare, "maxUnavailable": 1 - spare}


# The network


def test_nobody_reaches_a_pod_but_its_own_namespace_and_what_a_policy_names(made: Plan) -> None:
    policies = plans.of_type(made, ":NetworkPolicy")
    for resource, _ in plans.pods(made):
        home = resource.inputs["metadata"]["namespace"]
        specs = [each.inputs["spec"] for each in policies if each.inputs["metadata"]["namespace"] == home]
        closed = [spec for spec in specs if not spec["podSelector"] and "Ingress" in spec["policyTypes"]]
        assert closed, f"{home} lets everybody in"
        for rule in (rule for spec in specs for rule in spec.get("ingress", ())):
            assert rule["from"], f"{home} lets everybody in"
            for peer in rule["from"]:
                assert "ipBlock" not in peer
                assert "podSelector" in peer or (peer["namespaceSelector"] and rule["ports"])


def test_a_standard_cluster_enforces_what_its_pods_count_on(plan: Plan) -> None:
    for cluster in plans.of_type(plan, "container/cluster:Cluster"):
        inputs = cluster.inputs
        assert inputs["deletionProtection"] is False
        if not inputs.get("enableAutopilot"):
            assert inputs["datapathProvider"] == "ADVANCED_DATAPATH"
            assert inputs["privateClusterConfig"] == {"enablePrivateNodes": True}
            assert inputs["workloadIdentityConfig"]["workloadPool"] == "rehearsal-project.svc.id.goog"
            assert inputs["addonsConfig"]["gcsFuseCsiDriverConfig"] == {"enabled": True}
            assert inputs["removeDefaultNodePool"] is True


# What waits for what; APIs, namespaces and Kueue's queues are the preview's own checks


def used_by(plan: Plan, resource: Planned, spec: dict[str, Any]) -> Iterator[Planned]:
    """Everything that pods of a resource must find in place, as far as the plan makes it."""
    home, account = resource.inputs["metadata"]["namespace"], spec.get("serviceAccountName", "default")
    named = {("ServiceAccount", account), ("Service", spec.get("subdomain"))}
    named |= {("Secret", reference["name"]) for reference in plans.values(spec, "secretKeyRef")}
    named |= {("ConfigMap", volume["name"]) for volume in plans.values(spec, "configMap")}
    accelerated = any("/" in name for limits in plans.values(spec, "limits") for name in limits)
    for each in plan.resources:
        kind = each.type.rpartition(":")[2]
        if each.type.startswith("kubernetes:"):
            metadata = each.inputs.get("metadata") or {}
            used = kind == "NetworkPolicy" or (kind, metadata.get("name")) in named
            used = used and metadata.get("namespace") == home
        else:
            used = each.type.startswith("gcp:") and (
                kind == "RouterNat"
                or str(each.inputs.get("member")).endswith(f"/subject/ns/{home}/sa/{account}")
                or (kind == "RepositoryIamMember" and each.inputs["role"].endswith(".reader"))
                or (kind == "NodePool" and accelerated and _accelerated(each))
            )
        if used:
            yield each


def _accelerated(pool: Planned) -> bool:
    node = pool.inputs["nodeConfig"]
    return bool(node.get("guestAccelerators")) or node["machineType"].startswith("ct")


def test_pods_start_when_everything_that_they_use_is_there(made: Plan) -> None:
    for resource, spec in plans.pods(made):
        awaited = plans.awaited(made, resource)
        for needed in used_by(made, resource, spec):
            assert needed in awaited, f"{resource.name} does not wait for {needed.name}"
        pools = plans.of_type(made, "container/nodePool:NodePool")
        assert not pools or [pool for pool in pools if pool in awaited], f"{resource.name} waits for no nodes"


def test_what_runs_on_cloud_run_starts_when_everything_that_it_uses_is_there(made: Plan) -> None:
    for resource in plans.of_type(made, "cloudrunv2/job:Job") + plans.of_type(
        made, "cloudrunv2/service:Service"
    ):
        (account,) = re.findall(r'"serviceAccount": "([^"]+)"', json.dumps(resource.inputs))
        awaited = plans.awaited(made, resource)
        for each in made.resources:
            used = (
                each.type.endswith(":RouterNat") or each.inputs.get("member") == f"serviceAccount:{account}"
            )
            assert not used or each in awaited, f"{resource.name} does not wait for {each.name}"


def test_a_cluster_waits_for_no_bucket_token_or_image(plan: Plan) -> None:
    """They are made meanwhile: it takes the longest."""
    for cluster in plans.of_type(plan, "container/cluster:Cluster"):
        slow = (":Bucket", ":SecretVersion", ":Build", ":Repository", ":RouterNat")
        assert not [each.name for each in plans.awaited(plan, cluster) if each.type.endswith(slow)]
    for each in plans.of_type(plan, ":Bucket") + plans.of_type(plan, ":SecretVersion"):
        assert not [other for other in plans.awaited(plan, each) if other.type.endswith(":Cluster")]


# The course of a stack


def test_changing_nothing_changes_nothing(life: Life) -> None:
    assert life.changed_by_nothing == 0


def test_nothing_is_destroyed_without_force_destroy(made: Plan, life: Life) -> None:
    assert life.untouched is (True if plans.of_type(made, "storage/bucket:Bucket") else None)


def test_everything_is_destroyed_with_it(life: Life) -> None:
    assert life.left == []


@pytest.mark.parametrize("stack", ["a4-accelerate", "a4-ray", "l4-kueue", "tpu-maxtext"])
def test_the_console_shows_the_cluster_that_the_stack_made(stack: str) -> None:
    outputs = plans.outputs(plans.standing(stack))
    (name, location), *_ = re.findall(r"get-credentials (\S+) --location (\S+)", outputs["connect"])
    place = f"{location}/{name}"
    assert outputs["openMonitoring"] == (
        f"https://console.cloud.google.com/kubernetes/clusters/details/{place}/observability"
        "?project=rehearsal-project"
    )
