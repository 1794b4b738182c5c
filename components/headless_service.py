"""Names for the pods of a job, so that they find each other."""

from dataclasses import dataclass

import pulumi

from components.component import Component
from components.manifest import MANIFESTS, Manifest
from components.namespace import Namespace


@dataclass(frozen=True, kw_only=True)
class HeadlessServiceArgs:
    """Arguments of `HeadlessService`.

    Args:
        namespace: Namespace of the pods.
        service_name: Its name, and the label `app` of the pods.
    """

    namespace: Namespace
    service_name: str


class HeadlessService(Component):
    """A Service without an address of its own: each pod is POD.SERVICE, whichever node it is on.

    Attributes:
        service_name: Its name.
        access: What pods that look for each other must wait for.
    """

    group = "workload"

    def __init__(
        self, name: str, args: HeadlessServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, opts)
        self.service_name = args.service_name
        values = {"name": args.service_name, "namespace": args.namespace.namespace}
        self.access: pulumi.Resource = Manifest(MANIFESTS / "headless-service.yaml", values).create(
            f"{name}-{args.service_name}-service", args.namespace.inside(self)
        )
        self.register_outputs({"name": self.service_name})
