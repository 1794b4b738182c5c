"""Service accounts that workloads run as, and the check of IAM members in settings."""

from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from cloud.services.iam import MEMBER
from components.base.account import run_as
from components.base.component import Args, Component
from components.cluster.namespace import Namespace

EVERYBODY: Final = "allUsers"


class GoogleServiceAccountArgs(Args):
    """Arguments of `GoogleServiceAccount`.

    Args:
        existing: Address of an account that exists, in place of one of the stack's own.
    """

    project: pulumi.Input[str]
    display_name: str
    existing: str | None = None


class GoogleServiceAccount(Component[GoogleServiceAccountArgs]):
    """The Google service account of one Cloud Run job or service, so that no other workload has its roles.

    Attributes:
        member: `serviceAccount:EMAIL`.
    """

    apis = ("iam.googleapis.com",)

    def _declare(self, name: str, args: GoogleServiceAccountArgs) -> None:
        account = run_as(
            name,
            args.existing,
            project=args.project,
            display_name=args.display_name,
            roles={},
            parent=self,
        )
        self.email: pulumi.Output[str] = account.email
        self.member: pulumi.Output[str] = account.member

    def iam_member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """The account as an IAM member. The number is not needed: the address contains the project."""
        return self.member


class ServiceAccountArgs(Args):
    """Arguments of `ServiceAccount`."""

    namespace: Namespace
    account_name: str


class ServiceAccount(Component[ServiceAccountArgs]):
    """The Kubernetes service account of one workload, so that no other workload has its roles.

    IAM accepts it as a member without a Google service account.
    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity

    Attributes:
        access: The object, for which a pod that runs as this account must wait.
    """

    def _declare(self, name: str, args: ServiceAccountArgs) -> None:
        self.account_name = args.account_name
        self._namespace = args.namespace
        self.access: pulumi.Resource = kubernetes.core.v1.ServiceAccount(
            f"{name}-service-account",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.account_name, namespace=args.namespace.namespace
            ),
            # The workload gets Google tokens from the metadata server and never calls the API server.
            automount_service_account_token=False,
            opts=args.namespace.inside(self),
        )

    def iam_member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """The account as an IAM member, `principal://...`.

        Args:
            project_number: Number of the cluster's project, which has the workload identity pool.
        """
        return pulumi.Output.concat(
            "principal://iam.googleapis.com/projects/",
            project_number,
            "/locations/global/workloadIdentityPools/",
            self._namespace.cluster.workload_pool,
            f"/subject/ns/{self._namespace.namespace}/sa/{self.account_name}",
        )


# A service account that IAM can grant a role to.
Identity = GoogleServiceAccount | ServiceAccount


def check_member(text: str) -> str:
    """Returns the text if it is an IAM member.

    Raises:
        ValueError: If it is not a member, or if it is `allAuthenticatedUsers`.
    """
    if text == "allAuthenticatedUsers":
        raise ValueError(
            "allAuthenticatedUsers is everybody with a Google account; write allUsers if you mean the "
            "whole world, or name users and groups"
        )
    if not MEMBER.fullmatch(text):
        raise ValueError(
            f"{text!r} is not an IAM member such as user:NAME@EXAMPLE.COM, group:NAME@EXAMPLE.COM or "
            "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"
        )
    return text
