"""Where a first run is looked at: the project, and the stack that is up."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cloud import cloudbuild, container
from cloud.machines import MACHINES, Machine
from operations.clients import Clients
from operations.errors import OperationError
from operations.plan import StackPlan
from operations.state import Resource, State
from operations.status.cluster import Cluster, Object, from_google
from operations.status.pods import MACHINE


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What there is to look at. All of it raises OperationError for what is not there or does not answer.

    Args:
        given: The stack's cluster, where the address that GKE names does not do.
    """

    plan: StackPlan
    state: State
    clients: Clients
    given: Cluster | None = None

    def resource(self, type_token: str) -> Resource:
        """The stack's resource of a type."""
        for found in self.state.of_type(type_token):
            return found
        raise OperationError(f"no {type_token.rpartition(':')[2]} of the stack is up")

    @cached_property
    def cluster(self) -> Cluster:
        """The API server of the stack's cluster."""
        name, method = self.resource(container.CLUSTER.type).id, "projects.locations.clusters.get"
        return self.given or from_google(self.clients, self.clients.call("container.v1", method, name=name))

    def agents(self, app: str) -> list[Object]:
        """Pods of GKE's own, by their label."""
        pods = self.cluster.every("/api/v1/namespaces/kube-system/pods")
        if not pods:
            raise OperationError("no pod of GKE's own is there")
        return [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("k8s-app") == app]

    def pods(self) -> list[Object]:
        """Pods of the namespaces that the stack has made."""
        namespaces = self.state.of_type("kubernetes:core/v1:Namespace")
        paths = [f"/api/v1/namespaces/{each.id}/pods" for each in namespaces]
        return [pod for path in paths for pod in self.cluster.every(path)]

    def machines(self, *, tpu: bool) -> list[tuple[Machine, Object]]:
        """What nodes with TPUs, or with GPUs, are, and the nodes."""
        nodes = self.cluster.every("/api/v1/nodes")
        typed = ((MACHINES.get((each["metadata"].get("labels") or {}).get(MACHINE)), each) for each in nodes)
        found = [(type_, node) for type_, node in typed if type_ and type_.model and type_.is_tpu is tpu]
        if not found:
            raise OperationError(f"no node with {'TPUs' if tpu else 'GPUs'} is up")
        return found

    @cached_property
    def build(self) -> Mapping[str, Any]:
        """The build of the stack's image."""
        made = self.resource(cloudbuild.BUILD.type)
        name = f"projects/{self.plan.project}/locations/{made.outputs['location']}/builds/{made.id}"
        return self.clients.call("cloudbuild.v1", "projects.locations.builds.get", name=name)
