"""The Helm release of Kueue in a stack: its configuration is judged by the manager itself."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
import yaml

from rehearsal.control_plane import ControlPlane, kueue_release
from rehearsal.control_plane.api import Api, ApiError, WaitError, until
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests.rehearsal.small import SETTINGS, make_cluster

CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloadpriorityclasses.kueue.x-k8s.io"
CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": ["batch/job", "deployment"]},
}


def configured(configuration: Any) -> dict[str, Any]:
    """The values for a configuration of the manager."""
    return {"managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(configuration)}}


def program(
    values: dict[str, Any] | None = None,
    flavor: dict[str, Any] | None = None,
    version: str = "0.19.2",
    chart: str = "kueue",
) -> Callable[[], None]:
    """A cluster with Kueue in it and one flavor of nodes."""

    def run() -> None:
        _, provider = make_cluster()
        home = kubernetes.core.v1.Namespace(
            "home",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name="kueue-system"),
            opts=pulumi.ResourceOptions(provider=provider),
        )
        installed = kubernetes.helm.v3.Release(
            "kueue",
            name="kueue",
            namespace="kueue-system",
            chart=f"oci://registry.k8s.io/kueue/charts/{chart}",
            values=values or configured(CONFIGURATION),
            version=version,
            opts=pulumi.ResourceOptions(provider=provider, depends_on=[home]),
        )
        kubernetes.apiextensions.CustomResource(
            "flavor",
            api_version="kueue.x-k8s.io/v1beta2",
            kind="ResourceFlavor",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name="l4"),
            spec=flavor or {"nodeLabels": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
            opts=pulumi.ResourceOptions(provider=provider, depends_on=[installed]),
        )

    return run


def test_a_release_runs_the_real_manager_whose_kinds_are_checked_and_goes_without_a_trace(
    plane: ControlPlane,
) -> None:
    # Something that only the kind's own schema knows.
    flavor: dict[str, Any] = {"nodeTaints": [{"key": "team", "value": "ml", "effect": "Never"}]}
    with Rehearsal("small", SETTINGS, program(flavor=flavor), plane=plane) as rehearsal:
        with pytest.raises(RehearsalError, match=r"ResourceFlavor l4: .*nodeTaints.*effect"):
            rehearsal.up()
        flavor["nodeTaints"][0] = {"key": "team", "value": "ml", "effect": "NoSchedule", "cohort": "all"}
        with pytest.raises(RehearsalError, match=r"ResourceFlavor l4: .*cohort: field not declared"):
            rehearsal.up()
        del flavor["nodeTaints"][0]["cohort"]
        rehearsal.up()
        assert rehearsal.preview().changed == 0
        assert rehearsal.refresh().changed == 0
        assert rehearsal.cluster
        assert plane.kueue.installed
        rehearsal.destroy()
        assert not plane.kueue.installed
        assert rehearsal.cluster.left() == []


def test_a_kind_that_does_not_go_is_named(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object of it has a finalizer, and the manager that would take it off has gone."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kueue-system"}}
    held = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": "high", "finalizers": ["example.com/held"]},
        "value": 1,
    }
    plane.api.apply(namespace)
    plane.kueue.install({}, "kueue-system")
    manager = Api(plane.kueue.manager.kubeconfig)
    assert manager.list("v1", "Pod") == []
    with pytest.raises(ApiError, match='cannot create resource "workloadpriorityclasses"'):
        manager.create(held)  # it has the chart's rights, and no others
    plane.api.create(held)
    monkeypatch.setattr(kueue_release, "until", partial(until, timeout=1.0))
    reason = r"workloadpriorityclasses\.kueue\.x-k8s\.io \(CustomResource deletion is in progress\)"
    with pytest.raises(WaitError, match=reason):
        plane.kueue.uninstall()
    # A change that makes the API server look again, should it have forgotten the deletion.
    assert "rehearsal/touched" in plane.api.request("GET", CRD_PATH)["metadata"]["annotations"]
    monkeypatch.undo()
    plane.api.patch(held, {"metadata": {"finalizers": None}})
    plane.kueue.uninstall()
    assert not plane.kueue.installed
    plane.api.delete(namespace)
    until(lambda: "the namespace to go", lambda: plane.api.get(namespace) is None, 60)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (program({"managerconfig": {}}), "values.managerconfig: the chart of Kueue has no such value"),
        (program(version="0.18.0"), "has Kueue v0.19.2, the release wants 0.18.0"),
        (program(chart="another"), "the Helm chart another cannot be installed here"),
    ],
    ids=["an unknown value", "another version", "another chart"],
)
def test_a_wrong_release_fails_before_anything_is_installed(
    plane: ControlPlane, wrong: Callable[[], None], reason: str
) -> None:
    with Rehearsal("small", SETTINGS, wrong, plane=plane) as rehearsal:
        with pytest.raises(RehearsalError, match=reason):
            rehearsal.up()
        assert not plane.kueue.installed
        rehearsal.destroy()
        assert rehearsal.cluster and rehearsal.cluster.left() == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (configured({**CONFIGURATION, "integrations": {"podOptions": {}}}), '"integrations.podOptions"'),
        (configured(["a"]), "Kueue rejects its configuration: .*cannot unmarshal array"),
        ({"webhookService": "no"}, "Helm rejects the release of Kueue: .*webhook/service.yaml"),
        ({"enableKueueViz": True}, "has one ConfigMap here, not 2"),
    ],
)
def test_what_helm_or_the_manager_rejects_is_not_installed(
    plane: ControlPlane, values: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RehearsalError, match=reason):
        plane.kueue.install(values, "kueue-system")
    assert not plane.kueue.installed
