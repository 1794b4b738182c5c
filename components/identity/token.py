"""The tokens that a training uses at other services: the Hugging Face Hub, Weights & Biases."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar, Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.base.component import Args, Component
from components.cluster.namespace import Namespace

_KEY_OF_GOOGLE: Final = "a key of Google's"


class TokenArgs(Args):
    """Arguments of a `Token`.

    Args:
        token: The token, as a secret output.
        location: Region in which Google keeps the token. A key must be in it.
        secret_id: Id in Secret Manager, unique in the project.
        readers: Service accounts that read the token from Secret Manager. The key becomes part of the
            binding's name.
        namespace: Namespace whose pods read the token from a Kubernetes Secret. None if no pods read it.
        kms_key: Path of the key that encrypts the token. None means a key of Google's.
    """

    project: pulumi.Input[str]
    token: pulumi.Output[str]
    location: str
    secret_id: str
    labels: Mapping[str, str]
    readers: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    namespace: Namespace | None = None
    kms_key: str | None = None


def _replication(location: str, kms_key: str | None) -> gcp.secretmanager.SecretReplicationArgs:
    """One copy in a region. Companies may forbid copies in regions that Google chooses."""
    encryption = gcp.secretmanager.SecretReplicationUserManagedReplicaCustomerManagedEncryptionArgs
    replica = gcp.secretmanager.SecretReplicationUserManagedReplicaArgs(
        location=location,
        customer_managed_encryption=encryption(kms_key_name=kms_key) if kms_key else None,
    )
    return gcp.secretmanager.SecretReplicationArgs(
        user_managed=gcp.secretmanager.SecretReplicationUserManagedArgs(replicas=[replica])
    )


class Token(Component[TokenArgs]):
    """The token in Secret Manager and, if pods read it, in a Kubernetes Secret.

    Attributes:
        title: End of its id in Secret Manager, after the name of the stack.
        noun: Part of the logical names, and the name of the Kubernetes Secret.
        variable: Environment variable in which a workload expects the token.
        version: Version in Secret Manager that holds the token.
        access: The bindings and the Kubernetes Secret, for which a workload that reads the token must wait.
    """

    apis = ("secretmanager.googleapis.com",)
    title: ClassVar[str]
    noun: ClassVar[str]
    variable: ClassVar[str]

    @classmethod
    def in_pods(cls) -> dict[str, Any]:
        """The environment variable of a container that reads the token from the Kubernetes Secret."""
        return {"name": cls.variable, "valueFrom": {"secretKeyRef": {"name": cls.noun, "key": "token"}}}

    def _declare(self, name: str, args: TokenArgs) -> None:
        secret = gcp.secretmanager.Secret(
            f"{name}-{self.noun}",
            secret_id=args.secret_id,
            project=args.project,
            labels=args.labels,
            replication=_replication(args.location, args.kms_key),
            opts=pulumi.ResourceOptions(parent=self),
        )
        version = gcp.secretmanager.SecretVersion(
            f"{name}-{self.noun}-version",
            secret=secret.id,
            secret_data=args.token,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Another key encrypts only the versions that follow. The engine compares only two texts.
                # https://docs.cloud.google.com/secret-manager/docs/reference/rest/v1/Replication
                replacement_trigger=args.kms_key or _KEY_OF_GOOGLE,
            ),
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
            # `in_pods` refers to this name and key.
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
    """The key that a training needs to report to Weights & Biases."""

    title, noun, variable = "wandb-key", "wandb-key", "WANDB_API_KEY"
