"""What policies of an organisation ask of a cluster. No other place knows how GKE spells it."""

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True, kw_only=True)
class ClusterPolicies:
    """What a company's policies ask of a cluster, and a stack has only with a setting.

    Args:
        binary_authorization: Whether the project's policy decides which images pods have.
        rbac_group: Address of the group whose member groups roles in the cluster can name.
        bulletins: Name of a topic in the cluster's project that gets security bulletins.
    """

    binary_authorization: bool = False
    rbac_group: str | None = None
    bulletins: str | None = None

    def properties(self, project: pulumi.Input[str]) -> dict[str, Any]:
        """Arguments of the SDK's cluster."""
        return {
            "binary_authorization": gcp.container.ClusterBinaryAuthorizationArgs(
                evaluation_mode="PROJECT_SINGLETON_POLICY_ENFORCE"
            )
            if self.binary_authorization
            else None,
            "authenticator_groups_config": gcp.container.ClusterAuthenticatorGroupsConfigArgs(
                security_group=self.rbac_group
            )
            if self.rbac_group
            else None,
            "notification_config": _notification(project, self.bulletins) if self.bulletins else None,
            # No role is for everybody who has some account at Google, or none. GKE's own bindings stay
            # (assumption rbac-bindings).
            "rbac_binding_config": gcp.container.ClusterRbacBindingConfigArgs(
                enable_insecure_binding_system_authenticated=False,
                enable_insecure_binding_system_unauthenticated=False,
            ),
        }


def _notification(project: pulumi.Input[str], topic: str) -> gcp.container.ClusterNotificationConfigArgs:
    return gcp.container.ClusterNotificationConfigArgs(
        pubsub=gcp.container.ClusterNotificationConfigPubsubArgs(
            enabled=True,
            topic=pulumi.Output.concat("projects/", project, "/topics/", topic),
            filter=gcp.container.ClusterNotificationConfigPubsubFilterArgs(
                event_types=["SECURITY_BULLETIN_EVENT"]
            ),
        )
    )
