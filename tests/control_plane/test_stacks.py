"""What the stacks declare, judged by a real API server."""

import copy
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from operations import network_policies
from operations.state import parse
from operations.status.cluster import from_kubeconfig
from rehearsal.control_plane import ControlPlane
from rehearsal.control_plane.api import Api, ApiError
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import inventory, plans
from tests.rehearsal.small import SETTINGS, make_cluster

STACKS = [
    stack
    for stack in plans.STACKS
    if any(type_token.startswith("kubernetes:") for type_token in inventory.types(stack))
]


@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_runs_on_the_control_plane_and_leaves_nothing(stack: str, plane: ControlPlane) -> None:
    with Rehearsal(stack, plane=plane) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        assert rehearsal.cluster
        objects = [resource for resource in plan.resources if resource.type.startswith("kubernetes:")]
        assert rehearsal.cluster.written == len(
            [resource for resource in objects if "helm.sh" not in resource.type]
        )
        assert rehearsal.preview().changed == 0
        assert rehearsal.refresh().changed == 0
        rehearsal.remove()
        assert rehearsal.cloud.items == []
        assert rehearsal.cluster.left() == []


def test_drift_shows_in_a_refresh_and_is_mended_by_the_next_up(plane: ControlPlane, api: Api) -> None:
    with Rehearsal("a4-ray", {"imageUri": plans.IMAGE}, plane=plane) as rehearsal:
        rehearsal.up()
        policies = api.list("networking.k8s.io/v1", "NetworkPolicy", "ray")
        policy = next(policy for policy in policies if policy["spec"]["policyTypes"] == ["Ingress"])
        api.patch(policy, {"spec": {"policyTypes": ["Egress"]}})
        assert rehearsal.refresh().changed == 1
        assert rehearsal.preview().changed == 1
        rehearsal.up()
        assert (api.get(policy) or {})["spec"] == policy["spec"]
        assert rehearsal.refresh().changed == 0
        rehearsal.remove()
    assert api.list("v1", "Node") == []


def test_a_policy_that_somebody_opened_is_seen_by_drift_although_no_refresh_sees_it(
    plane: ControlPlane, api: Api
) -> None:
    """The provider reads of a list as much as the program states."""
    with Rehearsal("l4-kueue", {"imageUri": plans.IMAGE}, plane=plane) as rehearsal:
        rehearsal.up()
        state = parse(rehearsal.engine(["stack", "export"]), "the state")
        policies = [*state.of_type(network_policies.POLICY)]
        cluster = from_kubeconfig(plane.kubeconfig)
        assert policies and network_policies.compare(policies, cluster) == []
        closed = next(policy for policy in policies if not policy.inputs["spec"].get("ingress"))
        namespace, _, name = closed.id.rpartition("/")
        live = next(
            tree
            for tree in api.list("networking.k8s.io/v1", "NetworkPolicy", namespace)
            if tree["metadata"]["name"] == name
        )
        api.patch(live, {"spec": {"ingress": [{}]}})
        (change,) = network_policies.compare(policies, cluster)
        assert (change.name, change.properties[0].new) == (closed.name, "[{}]")
        stated = next(policy for policy in policies if policy.inputs["spec"].get("ingress"))
        other = {"metadata": {"namespace": namespace, "name": stated.id.rpartition("/")[2]}}
        rules = [*stated.inputs["spec"]["ingress"], {}]
        api.patch({**live, **other}, {"spec": {"ingress": rules}})
        assert {change.name for change in network_policies.compare(policies, cluster)} == {
            closed.name,
            stated.name,
        }
        api.create({**live, "metadata": {"namespace": namespace, "name": "of-somebody-else"}})
        names = {change.name for change in network_policies.compare(policies, cluster)}
        assert f"{namespace}/of-somebody-else" in names
        assert rehearsal.refresh().changed == 0
        rehearsal.remove()


def test_what_somebody_else_made_is_not_taken_over_and_what_he_wrote_is_a_conflict_without_force(
    plane: ControlPlane, api: Api
) -> None:
    def program() -> None:
        cluster, provider = make_cluster()
        options = pulumi.ResourceOptions(provider=provider, deleted_with=cluster)
        metadata = kubernetes.meta.v1.ObjectMetaArgs(name="pods", labels={"said": "ours"})
        kubernetes.core.v1.ServiceAccount("pods", metadata=metadata, opts=options)

    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "pods", "namespace": "default"},
    }
    with Rehearsal("small", SETTINGS, program, plane=plane) as rehearsal:
        api.create(account)
        with pytest.raises(RehearsalError, match='serviceaccounts "pods" already exists'):
            rehearsal.up()
        assert "labels" not in (api.get(account) or {})["metadata"]
        api.delete(account)
        rehearsal.up()
        api.patch(account, {"metadata": {"labels": {"said": "theirs"}}})
        assert rehearsal.refresh().changed == 1
        with pytest.raises(RehearsalError, match=r"conflict with .*labels\.said"):
            rehearsal.up()
        rehearsal.destroy()


def test_a_training_that_fails_fails_the_up_that_waits_for_it(plane: ControlPlane) -> None:
    # A Job of the trial would fail first.
    settings = {"waitForTraining": "true", "trial": "false", "imageUri": plans.IMAGE}
    with Rehearsal("a4-ray", settings, plane=plane) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        with pytest.raises(RehearsalError, match="the training failed: RayJob"):
            rehearsal.up()
        rehearsal.remove()


@pytest.mark.parametrize(
    ("stack", "overrides", "kinds"),
    [
        ("a4-ray", {}, ["RayJob"]),
        ("a4-ray", {"rayCluster": "shared"}, ["RayCluster", "RayJob"]),
        ("tpu-maxtext", {}, ["RayJob"]),
    ],
)
def test_the_operator_knows_every_field_and_no_other(
    api: Api, stack: str, overrides: dict[str, str], kinds: list[str]
) -> None:
    with Rehearsal(stack, overrides) as rehearsal:
        plan = rehearsal.preview()
    for kind in kinds:
        tree: dict[str, Any] = copy.deepcopy({**plans.only(plan, f"ray.io/v1:{kind}").inputs})
        tree["metadata"]["namespace"] = "default"
        tree.pop("status", None)
        assert api.apply(tree, dry_run=True)["kind"] == kind
        cluster = tree["spec"].get("rayClusterSpec", tree["spec"])
        head = cluster.get("headGroupSpec")
        (head["template"]["spec"]["containers"][0] if head else cluster)["misspelt"] = {}
        with pytest.raises(ApiError, match=r"misspelt: field not declared in schema"):
            api.apply(tree, dry_run=True)


def test_what_the_api_server_says_is_what_the_engine_says(plane: ControlPlane) -> None:
    def program() -> None:
        cluster, provider = make_cluster()
        # No schema of ours knows that the number of pods is no budget.
        kubernetes.policy.v1.PodDisruptionBudget(
            "budget",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name="budget"),
            spec=kubernetes.policy.v1.PodDisruptionBudgetSpecArgs(
                min_available=1,
                max_unavailable=1,
                selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels={"app": "server"}),
            ),
            opts=pulumi.ResourceOptions(provider=provider, deleted_with=cluster),
        )

    with Rehearsal("small", SETTINGS, program, plane=plane) as rehearsal:
        with pytest.raises(RehearsalError, match=r"budget.*the API server rejects PodDisruptionBudget"):
            rehearsal.up()
        rehearsal.destroy()
        assert rehearsal.cluster and rehearsal.cluster.left() == []
