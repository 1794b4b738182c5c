"""The tokens that a training shows to others: the Hub, a tracker."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.component import Args, Component
from components.namespace import Namespace


class TokenArgs(Args):
    """Arguments of a `Token`.

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


class Token(Component[TokenArgs]):
    """The token in Secret Manager and, where pods read it, in a Kubernetes Secret.

    Attributes:
        title: What it is called in Secret Manager, after the stack.
        noun: What it is called here, and its Kubernetes Secret.
        variable: The environment variable in which a workload looks for it.
        version: The version that holds the token.
        access: What a workload that reads the token must wait for.
    """

    group = "identity"
    apis = ("secretmanager.googleapis.com",)
    title: ClassVar[str]
    noun: ClassVar[str]
    variable: ClassVar[str]

    @classmethod
    def in_pods(cls) -> dict[str, Any]:
        """The environment variable, as a container has it out of the Kubernetes Secret."""
        return {"name": cls.variable, "valueFrom": {"secretKeyRef": {"name": cls.noun, "key": "token"}}}

    def _declare(self, name: str, args: TokenArgs) -> None:
        secret = gcp.secretmanager.Secret(
            f"{name}-{self.noun}",
            secret_id=args.secret_id,
            project=args.project,
            labels=args.labels,
            replication=gcp.secretmanager.SecretReplicationArgs(
                auto=gcp.secretmanager.SecretReplicationAutoArgs()
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        version = gcp.secretmanager.SecretVersion(
            f"{name}-{self.noun}-version",
            secret=secret.id,
            secret_data=args.token,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.secret_id: pulumi.Output[str] = secret.secret_id
        self.version: pulumi.Output[str] = version.version
        self.access: list[pulumi.Resource] = [
            gcp.secretmanager.SecretIamMember(
                f"{name}-{self.noun}-{reader}",
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
                f"{name}-{self.noun}-for-pods",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(
                    name=self.noun, namespace=args.namespace.namespace
                ),
                string_data={"token": args.token},
                opts=args.namespace.inside(self),
            )
            self.access.append(for_pods)


class HuggingFaceToken(Token):
    """The token that downloads gated models."""

    title, noun, variable = "hugging-face-token", "hf-token", "HF_TOKEN"


class WandbKey(Token):
    """The key with which a training reports to Weights & Biases."""

    title, noun, variable = "wandb-key", "wandb-key", "WANDB_API_KEY"
