"""Every stack: which resource waits for which. The preview checks APIs, namespaces and Kueue's queues."""

from collections.abc import Iterator
from typing import Any

from engine.plan import Plan, Planned
from tests import plans


def used_by(plan: Plan, resource: Planned, spec: dict[str, Any]) -> Iterator[Planned]:
    """The resources of the plan that must exist before the pods of a resource start."""
    for planned in plan.resources:
        if planned.type.startswith("kubernetes:") and is_used_object(planned, resource, spec):
            yield planned
        if planned.type.startswith("gcp:") and is_used_in_google_cloud(planned, resource, spec):
            yield planned


def is_used_object(planned: Planned, resource: Planned, spec: dict[str, Any]) -> bool:
    """Whether the pods of a resource use an object: their spec names it, or it is a policy."""
    metadata = planned.inputs.get("metadata") or {}
    if metadata.get("namespace") != resource.inputs["metadata"]["namespace"]:
        return False
    objects = {("ServiceAccount", account_of(spec)), ("Service", spec.get("subdomain"))}
    objects |= {("Secret", reference["name"]) for reference in plans.values(spec, "secretKeyRef")}
    objects |= {("ConfigMap", volume["name"]) for volume in plans.values(spec, "configMap")}
    kind = planned.type.rpartition(":")[2]
    return kind == "NetworkPolicy" or (kind, metadata.get("name")) in objects


def is_used_in_google_cloud(planned: Planned, resource: Planned, spec: dict[str, Any]) -> bool:
    """Whether the pods of a resource use one of Google's: nodes, a way out, an image or a role."""
    match planned.type.rpartition(":")[2]:
        case "RouterNat":
            return True
        case "NodePool":
            # The name of an accelerator has a domain, such as nvidia.com/gpu.
            limits = [name for limits in plans.values(spec, "limits") for name in limits]
            return plans.is_accelerated(planned) and any("/" in name for name in limits)
        case "RepositoryIamMember":
            return planned.inputs["role"].endswith(".reader")
        case _:
            namespace = resource.inputs["metadata"]["namespace"]
            member = f"/subject/ns/{namespace}/sa/{account_of(spec)}"
            return str(planned.inputs.get("member")).endswith(member)


def account_of(spec: dict[str, Any]) -> str:
    """The service account of a pod."""
    return spec.get("serviceAccountName", "default")


def test_pods_start_when_everything_that_they_use_exists(standing: Plan) -> None:
    for resource, spec in plans.pods(standing):
        awaited = plans.awaited(standing, resource)
        for used in used_by(standing, resource, spec):
            assert used in awaited, f"{resource.name} does not wait for {used.name}"
        pools = plans.node_pools(standing)
        assert not pools or any(pool in awaited for pool in pools), f"{resource.name} waits for no nodes"


def test_a_container_on_cloud_run_starts_when_everything_that_it_uses_exists(standing: Plan) -> None:
    jobs = plans.of_type(standing, "cloudrunv2/job:Job")
    for resource in jobs + plans.of_type(standing, "cloudrunv2/service:Service"):
        (account,) = plans.service_accounts([resource])
        awaited = plans.awaited(standing, resource)
        for planned in standing.resources:
            is_nat = planned.type.endswith(":RouterNat")
            if is_nat or planned.inputs.get("member") == f"serviceAccount:{account}":
                assert planned in awaited, f"{resource.name} does not wait for {planned.name}"


def test_a_cluster_waits_for_no_bucket_token_or_image(plan: Plan) -> None:
    """A cluster takes the longest, so these are created at the same time."""
    slow = (":Bucket", ":SecretVersion", ":Build", ":Repository", ":RouterNat")
    for cluster in plans.clusters(plan):
        assert not [waited.name for waited in plans.awaited(plan, cluster) if waited.type.endswith(slow)]
    for resource in plans.of_type(plan, ":Bucket") + plans.of_type(plan, ":SecretVersion"):
        assert not [waited for waited in plans.awaited(plan, resource) if waited.type.endswith(":Cluster")]
