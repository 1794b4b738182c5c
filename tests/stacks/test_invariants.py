"""Invariants of every stack, on the real engine."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cloud.quantity import quantity
from documentation.pages import page_of
from engine.plan import Plan, Planned
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans
from tests.once import once

TOKEN = "hf_planted_in_a_test"
KEY = "key_planted_in_a_test_of_forty_characters"
# Roles that Google grants only on a whole project, with the end of the names of their bindings.
PROJECT_ROLES = {
    ("nodes-role", "roles/container.defaultNodeServiceAccount"),
    ("nodes-usage", "roles/serviceusage.serviceUsageConsumer"),
    ("builder-log", "roles/logging.logWriter"),
}


@dataclass(frozen=True)
class Life:
    """Observations of one rehearsal of a stack, from the first preview to the last destroy.

    Args:
        plan: The first preview.
        standing: The stack after the first `up`.
        state: The engine's state at that time, as a text.
        second_changes: Number of changes in a second `up`. test_faults.py looks at a second preview.
        survived: Whether all resources were still there after a rejected `destroy`. None if the stack has no
            protected resources.
        left: Names of the resources that the last `destroy` left.
    """

    plan: Plan
    standing: Plan
    state: str
    second_changes: int
    survived: bool | None
    left: list[str]


@pytest.fixture(scope="module", params=plans.STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def life(stack: str) -> Life:
    return once(("life", stack), lambda: life_of(stack))


def life_of(stack: str) -> Life:
    settings = plans.known_settings(stack, hfToken=TOKEN, wandbKey=KEY, imageUri=plans.IMAGE)
    kept, deletable = (plans.known_settings(stack, forceDestroy=value) for value in ("false", "true"))
    with Rehearsal(stack, settings | kept) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        standing, state = plans.standing_plan(rehearsal), json.dumps(rehearsal.state())
        second_changes = rehearsal.up().changed
        survived = None
        if any(resource.options.get("protect") for resource in plan.resources):
            before = sorted(item.key for item in rehearsal.cloud.items)
            with pytest.raises(RehearsalError, match="protected"):
                rehearsal.destroy()
            survived = sorted(item.key for item in rehearsal.cloud.items) == before
            rehearsal.configure(settings | deletable)
            rehearsal.up()
        rehearsal.destroy()
        left = [item.name for item in rehearsal.cloud.items]
        return Life(plan, standing, state, second_changes, survived, left)


@pytest.fixture(scope="module")
def plan(life: Life) -> Plan:
    return life.plan


@pytest.fixture(scope="module")
def standing(life: Life) -> Plan:
    return life.standing


def clusters(plan: Plan) -> list[Planned]:
    return plans.of_type(plan, "container/cluster:Cluster")


def node_pools(plan: Plan) -> list[Planned]:
    return plans.of_type(plan, "container/nodePool:NodePool")


def service_accounts(resources: list[Planned]) -> set[str]:
    """The service accounts that the inputs of resources name."""
    return {account for resource in resources for account in plans.values(resource.inputs, "serviceAccount")}


# Identities and their roles


def test_no_identity_has_a_primitive_role(plan: Plan) -> None:
    roles = {role for _, role in plans.roles(plan)}
    assert not {"roles/owner", "roles/editor", "roles/viewer"} & roles


def test_no_role_is_wider_than_one_bucket_repository_secret_or_service_where_it_can_be(
    stack: str, plan: Plan
) -> None:
    project_roles = {
        (resource.name.removeprefix(f"{stack}-"), role)
        for resource, role in plans.roles(plan)
        if resource.type == "gcp:projects/iAMMember:IAMMember"
    }
    assert project_roles <= PROJECT_ROLES


def test_only_accounts_that_the_stacks_own_workloads_run_as_reach_its_buckets(standing: Plan) -> None:
    pods = {
        f"ns/{resource.inputs['metadata']['namespace']}/sa/{spec.get('serviceAccountName')}"
        for resource, spec in plans.pods(standing)
    }
    accounts = service_accounts(plans.resources_of(standing))
    for grant in plans.of_type(standing, ":BucketIAMMember"):
        member = grant.inputs["member"]
        is_pod = member.rpartition("/subject/")[2] in pods
        assert is_pod or member.removeprefix("serviceAccount:") in accounts


def test_nodes_run_as_an_account_of_their_own_that_pulls_and_streams_images_and_no_more(
    standing: Plan,
) -> None:
    accounts = set(re.findall(r'"serviceAccount": "([^"]*-nodes-[^"]+)"', plans.text(standing)))
    assert len(accounts) == len(clusters(standing))
    roles = {
        role for grant, role in plans.roles(standing) if grant.inputs["member"].partition(":")[2] in accounts
    }
    node_roles = {"roles/container.defaultNodeServiceAccount", "roles/serviceusage.serviceUsageConsumer"}
    assert roles - {"roles/artifactregistry.reader"} == (node_roles if accounts else set())
    apis = {service.inputs["service"] for service in plans.of_type(standing, "projects/service:Service")}
    assert ("containerfilesystem.googleapis.com" in apis) == bool(accounts)


def test_no_node_exists_before_its_account_has_every_role_of_a_node(plan: Plan) -> None:
    bindings = plans.of_type(plan, "projects/iAMMember:IAMMember")
    node_bindings = {binding.urn for binding in bindings if "-nodes-" in binding.name}
    for cluster in clusters(plan):
        assert node_bindings <= {*cluster.dependencies}


def test_pulumis_suffix_still_fits_into_the_names_of_the_accounts(plan: Plan) -> None:
    for account in plans.of_type(plan, ":Account"):
        assert len(f"{account.name}-1234567") <= 30, account.name


# Tokens


def test_no_token_is_in_plain_text_in_plan_or_state(plan: Plan, life: Life) -> None:
    has_secrets = bool(plans.of_type(plan, "secretmanager/secretVersion:SecretVersion"))
    assert ("secretData" in life.state) == has_secrets
    for secret in (TOKEN, KEY):
        assert secret not in life.plan.as_json()
        assert secret not in life.state


def test_containers_get_tokens_by_reference(plan: Plan) -> None:
    secrets = {"HF_TOKEN": "hf-token", "WANDB_API_KEY": "wandb-key"}
    for name, container in plans.containers(plan):
        for variable in container.get("env", []):
            if secret := secrets.get(variable["name"]):
                assert "value" not in variable, name
                reference = variable["valueFrom"]["secretKeyRef"]
                assert (reference["name"], reference["key"]) == (secret, "token"), name
                assert not reference.get("optional"), name


def test_only_training_on_cloud_run_may_read_secret_manager(standing: Plan) -> None:
    """Pods have a Kubernetes Secret instead."""
    secrets = [secret.inputs["secretId"] for secret in plans.of_type(standing, "secretmanager/secret:Secret")]
    trainers = service_accounts(plans.of_type(standing, "cloudrunv2/job:Job"))
    grants = {
        (resource.inputs["secretId"], role, resource.inputs["member"])
        for resource, role in plans.roles(standing)
        if resource.type.startswith("gcp:secretmanager/")
    }
    accessor = "roles/secretmanager.secretAccessor"
    assert grants == {
        (secret, accessor, f"serviceAccount:{trainer}") for secret in secrets for trainer in trainers
    }


# Pods


def test_every_pod_has_requests_and_limits(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], name
        assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"]), name


def test_every_image_is_by_digest(standing: Plan) -> None:
    images = re.findall(r'"image": "([^"]*)"', plans.text(standing))
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


def test_a_pod_writes_only_into_volumes_and_its_home_is_one(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        empty = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
        for container in spec["containers"]:
            assert {"name": "HOME", "value": "/tmp"} in container["env"], name
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert mounted.get("/tmp") in empty, name


def test_every_scratch_volume_is_smaller_than_the_request_of_its_pod(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        requests = spec["containers"][0]["resources"]["requests"]
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume:
                resource = "memory" if volume["emptyDir"].get("medium") == "Memory" else "ephemeral-storage"
                size, request = quantity(volume["emptyDir"]["sizeLimit"]), quantity(requests[resource])
                assert (size or 0) < (request or 0), name


def test_no_upgrade_of_a_node_or_of_the_minor_version_interrupts_a_run(plan: Plan) -> None:
    for cluster in clusters(plan):
        (exclusion,) = cluster.inputs["maintenancePolicy"]["maintenanceExclusions"]
        assert exclusion["exclusionOptions"] == {
            "scope": "NO_MINOR_OR_NODE_UPGRADES",
            "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
        }


def test_the_autoscaler_evicts_no_pod_of_a_training_and_may_evict_a_server(plan: Plan) -> None:
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            marks = list(plans.values(resource.inputs, "cluster-autoscaler.kubernetes.io/safe-to-evict"))
            is_spot = any(plans.values(resource.inputs, "cloud.google.com/gke-spot"))
            trains = resource.type.endswith((":Job", ":RayJob")) and not is_spot
            pods = [owner for owner, _ in plans.pods(plan) if owner == resource]
            assert marks == ["false" for _ in pods if trains], resource.name


def test_an_upgrade_needs_no_spare_accelerator_machine(plan: Plan) -> None:
    for pool in node_pools(plan):
        spare = 0 if is_accelerated(pool) else 1
        assert pool.inputs["upgradeSettings"] == {"maxSurge": spare, "maxUnavailable": 1 - spare}


# The network


def test_a_pod_is_reached_only_from_its_own_namespace_and_by_peers_that_a_policy_names(
    standing: Plan,
) -> None:
    for resource, _ in plans.pods(standing):
        namespace = resource.inputs["metadata"]["namespace"]
        specs = [
            policy.inputs["spec"]
            for policy in plans.of_type(standing, ":NetworkPolicy")
            if policy.inputs["metadata"]["namespace"] == namespace
        ]
        closed = [spec for spec in specs if not spec["podSelector"] and "Ingress" in spec["policyTypes"]]
        assert closed, f"{namespace} lets everybody in"
        for spec in specs:
            for rule in spec.get("ingress", ()):
                check_peers(rule, namespace)


def check_peers(rule: dict[str, Any], namespace: str) -> None:
    """Fails if a rule for ingress lets everybody in."""
    assert rule["from"], f"{namespace} lets everybody in"
    for peer in rule["from"]:
        assert "ipBlock" not in peer
        assert "podSelector" in peer or (peer["namespaceSelector"] and rule["ports"])


def test_a_standard_cluster_enforces_policies_and_has_the_features_that_pods_need(plan: Plan) -> None:
    for cluster in clusters(plan):
        inputs = cluster.inputs
        assert inputs["deletionProtection"] is False
        if not inputs.get("enableAutopilot"):
            assert inputs["datapathProvider"] == "ADVANCED_DATAPATH"
            assert inputs["privateClusterConfig"] == {"enablePrivateNodes": True}
            assert inputs["workloadIdentityConfig"]["workloadPool"] == "rehearsal-project.svc.id.goog"
            assert inputs["addonsConfig"]["gcsFuseCsiDriverConfig"] == {"enabled": True}
            assert inputs["removeDefaultNodePool"] is True


# Which resource waits for which. The preview itself checks APIs, namespaces and Kueue's queues.


def used_by(plan: Plan, resource: Planned, spec: dict[str, Any]) -> Iterator[Planned]:
    """The resources of the plan that must exist before the pods of a resource start."""
    namespace, account = resource.inputs["metadata"]["namespace"], spec.get("serviceAccountName", "default")
    member = f"/subject/ns/{namespace}/sa/{account}"
    objects = {("ServiceAccount", account), ("Service", spec.get("subdomain"))}
    objects |= {("Secret", reference["name"]) for reference in plans.values(spec, "secretKeyRef")}
    objects |= {("ConfigMap", volume["name"]) for volume in plans.values(spec, "configMap")}
    limits = {name for limits in plans.values(spec, "limits") for name in limits}
    has_accelerators = any("/" in name for name in limits)
    for planned in plan.resources:
        kind = planned.type.rpartition(":")[2]
        if planned.type.startswith("kubernetes:"):
            metadata = planned.inputs.get("metadata") or {}
            if metadata.get("namespace") == namespace and (
                kind == "NetworkPolicy" or (kind, metadata.get("name")) in objects
            ):
                yield planned
        elif planned.type.startswith("gcp:"):
            match kind:
                case "RouterNat":
                    used = True
                case "NodePool":
                    used = has_accelerators and is_accelerated(planned)
                case "RepositoryIamMember":
                    used = planned.inputs["role"].endswith(".reader")
                case _:
                    used = str(planned.inputs.get("member")).endswith(member)
            if used:
                yield planned


def is_accelerated(pool: Planned) -> bool:
    node = pool.inputs["nodeConfig"]
    return bool(node.get("guestAccelerators")) or node["machineType"].startswith("ct")


def test_pods_start_when_everything_that_they_use_exists(standing: Plan) -> None:
    for resource, spec in plans.pods(standing):
        awaited = plans.awaited(standing, resource)
        for used in used_by(standing, resource, spec):
            assert used in awaited, f"{resource.name} does not wait for {used.name}"
        pools = node_pools(standing)
        assert not pools or any(pool in awaited for pool in pools), f"{resource.name} waits for no nodes"


def test_a_container_on_cloud_run_starts_when_everything_that_it_uses_exists(standing: Plan) -> None:
    jobs = plans.of_type(standing, "cloudrunv2/job:Job")
    for resource in jobs + plans.of_type(standing, "cloudrunv2/service:Service"):
        (account,) = service_accounts([resource])
        awaited = plans.awaited(standing, resource)
        for planned in standing.resources:
            is_nat = planned.type.endswith(":RouterNat")
            if is_nat or planned.inputs.get("member") == f"serviceAccount:{account}":
                assert planned in awaited, f"{resource.name} does not wait for {planned.name}"


def test_a_cluster_waits_for_no_bucket_token_or_image(plan: Plan) -> None:
    """A cluster takes the longest, so these are created at the same time."""
    slow = (":Bucket", ":SecretVersion", ":Build", ":Repository", ":RouterNat")
    for cluster in clusters(plan):
        assert not [waited.name for waited in plans.awaited(plan, cluster) if waited.type.endswith(slow)]
    for resource in plans.of_type(plan, ":Bucket") + plans.of_type(plan, ":SecretVersion"):
        assert not [waited for waited in plans.awaited(plan, resource) if waited.type.endswith(":Cluster")]


# The life of a stack


def test_the_page_of_a_stack_names_the_outputs_that_it_has(stack: str, life: Life) -> None:
    resources = json.loads(life.state)["deployment"]["resources"]
    (outputs,) = [resource["outputs"] for resource in resources if resource["type"] == "pulumi:pulumi:Stack"]
    # A stack of this list has its scenario's name, and the scenario's page.
    if not page_of(stack).exists():
        pytest.skip("the walkthrough's server comes without a page")
    page = page_of(stack).read_text()
    read = set(re.findall(r"pulumi stack output (\w+)", page))
    assert read <= outputs.keys()
    assert not [name for name in outputs.keys() - read if f"`{name}`" not in page]


def test_changing_nothing_changes_nothing(life: Life) -> None:
    assert life.second_changes == 0


def test_a_bucket_is_protected_without_force_destroy(life: Life) -> None:
    protected = [resource for resource in life.plan.resources if resource.options.get("protect")]
    buckets = [
        bucket
        for bucket in plans.of_type(life.plan, "storage/bucket:Bucket")
        if not bucket.inputs.get("forceDestroy")
    ]
    assert {bucket.name for bucket in buckets} <= {resource.name for resource in protected}
    assert life.survived is (True if protected else None)


def test_everything_is_destroyed_with_it(life: Life) -> None:
    assert life.left == []


@pytest.mark.parametrize("stack", plans.stacks_with("clusterName", "recipe"))
def test_the_console_shows_the_cluster_of_the_stack(stack: str) -> None:
    outputs = plans.outputs(plans.standing(stack))
    (name, location), *_ = re.findall(r"get-credentials (\S+) --location (\S+)", outputs["connect"])
    place = f"{location}/{name}"
    assert outputs["openMonitoring"] == (
        f"https://console.cloud.google.com/kubernetes/clusters/details/{place}/observability"
        "?project=rehearsal-project"
    )
