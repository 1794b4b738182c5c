"""The kind of requests for nodes, which GKE may install long after the cluster is ready."""

from collections.abc import Sequence

import pulumi

from components.base.component import Args, Component
from components.base.manifest import MANIFESTS, Manifest
from components.cluster.namespace import Namespace
from components.image.image import Image


class RequestKindArgs(Args):
    """Arguments of `RequestKind`.

    Args:
        namespace: A namespace for its objects.
        image: An image that the cluster's nodes may pull. No pod runs it.
        depends_on: The node pool for whose nodes requests ask.
    """

    namespace: Namespace
    image: Image
    depends_on: Sequence[pulumi.Resource]


class RequestKind(Component[RequestKindArgs]):
    """The moment from which a cluster knows the kind `ProvisioningRequest`: a request that nobody serves.

    Kueue looks for the kind once, when it starts (0.19.2, cmd/kueue/main.go). If it comes later, Kueue never
    makes a request, and jobs stay suspended. `up` retries an object of the kind until it comes
    (components.base.retries). GKE leaves the request alone: assumption queued-provisioning.

    Attributes:
        access: The request, for which Kueue must wait.
    """

    def _declare(self, name: str, args: RequestKindArgs) -> None:
        inside, namespace = args.namespace.inside, args.namespace.namespace
        template = Manifest(
            MANIFESTS / "nobodys-request-template.yaml", {"namespace": namespace, "image": args.image.uri}
        ).create(f"{name}-nobodys-request-template", inside(self))
        request = Manifest(MANIFESTS / "nobodys-request.yaml", {"namespace": namespace})
        self.access: pulumi.Resource = request.create(
            f"{name}-nobodys-request", inside(self, [template, *args.depends_on])
        )
