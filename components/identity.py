"""Who may use a resource."""

from dataclasses import dataclass
from typing import Protocol

import pulumi


class Identity(Protocol):
    """Something that IAM can give a role to."""

    def member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """The identity as an IAM member.

        Args:
            project_number: Number (not id) of the project that the identity lives in.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class KubernetesIdentity:
    """A Kubernetes service account, known to IAM by itself, without a Google service account.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/workload-identity

    Args:
        workload_pool: `PROJECT.svc.id.goog` of the cluster; exists once the cluster does.
        namespace: Namespace of the service account.
        service_account: Its name.
    """

    workload_pool: pulumi.Input[str]
    namespace: str
    service_account: str

    def member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """`principal://...`, see `Identity.member`."""
        return pulumi.Output.concat(
            "principal://iam.googleapis.com/projects/",
            project_number,
            "/locations/global/workloadIdentityPools/",
            self.workload_pool,
            f"/subject/ns/{self.namespace}/sa/{self.service_account}",
        )


@dataclass(frozen=True, kw_only=True)
class GoogleIdentity:
    """A Google service account.

    Args:
        account_member: `serviceAccount:EMAIL`.
    """

    account_member: pulumi.Output[str]

    def member(self, project_number: pulumi.Input[str]) -> pulumi.Output[str]:
        """The account itself: its address names its project. See `Identity.member`."""
        return self.account_member
