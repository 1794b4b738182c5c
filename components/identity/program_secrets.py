"""Secret environment variables of a person's own program."""

from collections.abc import Mapping
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from components.base.component import Args, Component
from components.cluster.namespace import Namespace

_NAME: Final = "program-secrets"


class ProgramSecretsArgs(Args):
    """Arguments of `ProgramSecrets`.

    Args:
        texts: Secret outputs, by the names of their variables.
    """

    namespace: Namespace
    texts: Mapping[str, pulumi.Output[str]]


class ProgramSecrets(Component[ProgramSecretsArgs]):
    """A Kubernetes Secret. Pods name it and never hold the values in their manifests.

    Attributes:
        variables: Environment variables of a container.
        access: The Secret, for which a pod with the variables must wait.
    """

    def _declare(self, name: str, args: ProgramSecretsArgs) -> None:
        self.variables: list[dict[str, Any]] = [
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": _NAME, "key": variable}}}
            for variable in args.texts
        ]
        self.access: pulumi.Resource = kubernetes.core.v1.Secret(
            f"{name}-program-secrets",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=_NAME, namespace=args.namespace.namespace),
            string_data=dict(args.texts),
            opts=args.namespace.inside(self),
        )
