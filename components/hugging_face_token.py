"""The token that downloads gated models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.namespace import Namespace

# Name and key of the Kubernetes Secret, as the manifests' secretKeyRef say them.
SECRET_NAME: Final = "hf-token"
SECRET_KEY: Final = "token"


@dataclass(frozen=True, kw_only=True)
class HuggingFaceTokenArgs:
    """Arguments of `HuggingFaceToken`.

    Args:
        project: Project id.
        token: The token, a secret output.
        secret_id: Id in Secret Manager, unique in the project.
        labels: Labels of the secret.
        namespace: Namespace whose pods read the token.
    """

    project: pulumi.Input[str]
    token: pulumi.Output[str]
    secret_id: str
    labels: Mapping[str, str]
    namespace: Namespace


class HuggingFaceToken(pulumi.ComponentResource):
    """The token in Secret Manager, where people keep it, and in a Kubernetes Secret, where pods read it.

    Attributes:
        access: What a pod that reads the token must wait for.
    """

    def __init__(
        self, name: str, args: HuggingFaceTokenArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("llm-stacks:components:HuggingFaceToken", name, None, opts)
        secret = gcp.secretmanager.Secret(
            f"{name}-hf-token",
            secret_id=args.secret_id,
            project=args.project,
            labels=args.labels,
            replication=gcp.secretmanager.SecretReplicationArgs(
                auto=gcp.secretmanager.SecretReplicationAutoArgs()
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        gcp.secretmanager.SecretVersion(
            f"{name}-hf-token-version",
            secret=secret.id,
            secret_data=args.token,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.access: pulumi.Resource = kubernetes.core.v1.Secret(
            f"{name}-hf-token-for-pods",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=SECRET_NAME, namespace=args.namespace.namespace),
            string_data={SECRET_KEY: args.token},
            opts=args.namespace.inside(self),
        )
        self.register_outputs({})
