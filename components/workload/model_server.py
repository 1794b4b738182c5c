"""Servers of a language model, behind one Service."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pulumi

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest, Values
from components.base.pod_patch import PodPatch
from components.cluster.namespace import Namespace

# kubectl follows five pods unless it is told more; a server that still waits for its turn has no log yet.
_ALL_PODS: Final = "--prefix --tail=-1 --max-log-requests=100 --ignore-errors"


@dataclass(frozen=True, kw_only=True)
class Autoscaling:
    """Limits between which the load decides about the number of servers.

    Args:
        minimum: Fewest servers.
        maximum: Most servers.
        manifests: What the servers measure, with the holes `name` and `namespace`. Then the autoscaler, which
            also has the holes `minimum` and `maximum`.
    """

    minimum: int
    maximum: int
    manifests: tuple[Path, Path]


class ModelServerArgs(Args):
    """Arguments of `ModelServer`.

    Args:
        server_name: Name of the Deployment, the Service and the label `app` of the pods.
        manifest: Deployment manifest with the holes `name`, `namespace`, `scale` and those of `values`.
        replicas: Number of servers. None leaves the number to an autoscaler or `kubectl scale`: an update
            does not reset a field that the manifest leaves out.
        autoscaling: The stack's own autoscaler. None means that it has none.
        patch: Additions to the pods.
        depends_on: Resources that the pods need and that the manifest refers to by name only.
    """

    namespace: Namespace
    server_name: str
    manifest: Path
    values: Values
    replicas: int | None
    autoscaling: Autoscaling | None = None
    patch: PodPatch = field(default_factory=PodPatch)
    depends_on: Sequence[pulumi.Resource]


class ModelServer(Component[ModelServerArgs]):
    """Identical servers behind one address inside the cluster.

    Attributes:
        pod_labels: Labels of the servers' pods.
    """

    def _declare(self, name: str, args: ModelServerArgs) -> None:
        self.server_name = args.server_name
        self.pod_labels: Mapping[str, str] = {"app": args.server_name}
        self._kubectl = args.namespace.kubectl
        names = {"name": args.server_name, "namespace": args.namespace.namespace}
        scale: Mapping[str, int] = {} if args.replicas is None else {"replicas": args.replicas}
        manifest = Manifest(args.manifest, {**args.values, **names, "scale": scale})
        args.patch.add_to(manifest.tree["spec"]["template"])
        server = manifest.create(f"{name}-serving", args.namespace.running_in(self, args.depends_on))
        for what in ("service", "disruption-budget"):
            Manifest(MANIFESTS / f"model-server-{what}.yaml", names).create(
                f"{name}-serving-{what}", args.namespace.inside(self)
            )
        if args.autoscaling:
            # Servers are there, and answer, also on a cluster that refuses their autoscaler.
            inside = args.namespace.inside(self, [server])
            self._declare_autoscaler(name, args.autoscaling, names, inside)

    def _declare_autoscaler(
        self, name: str, autoscaling: Autoscaling, names: Values, inside: pulumi.ResourceOptions
    ) -> None:
        limits = {"minimum": autoscaling.minimum, "maximum": autoscaling.maximum}
        metric, autoscaler = autoscaling.manifests
        Manifest(metric, names).create(f"{name}-serving-metrics", inside)
        Manifest(autoscaler, {**names, **limits}).create(f"{name}-serving-autoscaler", inside)

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the servers, their log and one's port, keyed by the name of the stack output."""
        pods = f"--selector app={self.server_name}"
        return {
            "watchServing": f"{self._kubectl} get pods {pods} --watch",
            "watchServer": f"{self._kubectl} logs --follow {_ALL_PODS} {pods}",
            "openServing": f"{self._kubectl} port-forward service/{self.server_name} 8000:8000",
        }
