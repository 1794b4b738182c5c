"""Who may use a resource: the accounts that workloads run as, and the members that a setting names."""

from typing import Final

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from cloud.iam import MEMBER
from components.component import Args, Component
from components.namespace import Namespace

EVERYBODY: Final = "allUsers"


class GoogleServiceAccountArgs(Args):
    """Arguments of `GoogleServiceAccount`."""

    project: pulumi.Input[str]
    display_name: str


class GoogleServiceAccount(Component[GoogleServiceAccountArgs]):
    """The Google service account of one Cloud Run job or service, so that only that one has its roles.

    Attributes:
        member: `serviceAccount:EMAIL`.
    """

    group = "identity"
    apis = ("iam.googleapis.com",)

    def _declare(self, name: str, args: GoogleServiceAccountArgs) -> None:
        account = gcp.serviceaccount.Account(
            # Its id is this name and 8 characters of Pulumi's, and may have 30: no suffix.
            name,
            project=args.project,
            display_name=args.display_name,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.email: pulumi.Output[str] = account.email
        self.member: pulumi.Output[str] = account.member

    def iam_member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """The account itself: its address names its project."""
        return self.member


class ServiceAccountArgs(Args):
    """Arguments of `ServiceAccount`."""

    namespace: Namespace
    account_name: str


class ServiceAccount(Component[ServiceAccountArgs]):
    """The Kubernetes service account of one workload, so that only that one has its roles.

    IAM knows it by itself, without a Google service account.
    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity

    Attributes:
        access: What a pod that runs as it must wait for.
    """

    group = "identity"

    def _declare(self, name: str, args: ServiceAccountArgs) -> None:
        self.account_name = args.account_name
        self._namespace = args.namespace
        self.access: pulumi.Resource = kubernetes.core.v1.ServiceAccount(
            f"{name}-service-account",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.account_name, namespace=args.namespace.namespace
            ),
            # The workload talks to Google through the metadata server, never to the API server.
            automount_service_account_token=False,
            opts=args.namespace.inside(self),
        )

    def iam_member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """`principal://...` in the workload identity pool of the cluster's project, which has this number."""
        return pulumi.Output.concat(
            "principal://iam.googleapis.com/projects/",
            project_number,
            "/locations/global/workloadIdentityPools/",
            self._namespace.cluster.workload_pool,
            f"/subject/ns/{self._namespace.namespace}/sa/{self.account_name}",
        )


# Something that IAM can give a role to.
Identity = GoogleServiceAccount | ServiceAccount


def check_member(text: str) -> str:
    """The text, which is an IAM member.

    Raises:
        ValueError: When it is none, or means everybody and is not `allUsers`.
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
