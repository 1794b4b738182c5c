"""The Kubernetes service account that a workload runs as."""

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.identity import KubernetesIdentity
from components.namespace import Namespace


@dataclass(frozen=True, kw_only=True)
class ServiceAccountArgs:
    """Arguments of `ServiceAccount`.

    Args:
        namespace: Namespace of the account.
        account_name: Its name.
    """

    namespace: Namespace
    account_name: str


class ServiceAccount(Component):
    """A service account of its own, so that a role given to it is given to one workload.

    Attributes:
        identity: What IAM gives roles to.
        account_name: Its name.
        access: What a pod that runs as it must wait for.
    """

    group = "identity"

    def __init__(
        self, name: str, args: ServiceAccountArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, opts)
        self.account_name = args.account_name
        self.identity = KubernetesIdentity(
            workload_pool=args.namespace.cluster.workload_pool,
            namespace=args.namespace.namespace,
            service_account=args.account_name,
        )
        self.access: pulumi.Resource = kubernetes.core.v1.ServiceAccount(
            f"{name}-service-account",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.account_name, namespace=args.namespace.namespace
            ),
            # The workload talks to Google through the metadata server, never to the API server.
            automount_service_account_token=False,
            opts=args.namespace.inside(self),
        )
        self.register_outputs({})
