"""The token that downloads gated models."""

from collections.abc import Mapping
from dataclasses import field

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.component import Args, Component
from components.namespace import Namespace


class HuggingFaceTokenArgs(Args):
    """Arguments of `HuggingFaceToken`.

    Args:
        token: The token, a secret output.
        secret_id: Id in Secret Manager, unique in the project.
        readers: Service accounts that read it from Secret Manager, by a name for the binding.
        namespace: Namespace whose pods read it from a Kubernetes Secret; None where none do.
    """

    project: pulumi.Input[str]
    token: pulumi.Output[str]
    secret_id: str
    labels: Mapping[str, str]
    readers: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    namespace: Namespace | None = None


class HuggingFaceToken(Component[HuggingFaceTokenArgs]):
    """The token in Secret Manager and, where pods read it, in a Kubernetes Secret.

    Attributes:
        version: The version that holds the token.
        access: What a workload that reads the token must wait for.
    """

    group = "identity"
    apis = ("secretmanager.googleapis.com",)

    def _declare(self, name: str, args: HuggingFaceTokenArgs) -> None:
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
        version = gcp.secretmanager.SecretVersion(
            f"{name}-hf-token-version",
            secret=secret.id,
            secret_data=args.token,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.secret_id: pulumi.Output[str] = secret.secret_id
        self.version: pulumi.Output[str] = version.version
        self.access: list[pulumi.Resource] = [
            gcp.secretmanager.SecretIamMember(
                f"{name}-hf-token-{reader}",
                project=args.project,
                secret_id=secret.secret_id,
                role="roles/secretmanager.secretAccessor",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for reader, member in args.readers.items()
        ]
        if args.namespace:
            # Name and key as the manifests' secretKeyRef say them.
            for_pods = kubernetes.core.v1.Secret(
                f"{name}-hf-token-for-pods",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(
                    name="hf-token", namespace=args.namespace.namespace
                ),
                string_data={"token": args.token},
                opts=args.namespace.inside(self),
            )
            self.access.append(for_pods)
