"""The Google service account that a Cloud Run job or service runs as."""

from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp

from components.component import Component
from components.identity import GoogleIdentity


@dataclass(frozen=True, kw_only=True)
class GoogleServiceAccountArgs:
    """Arguments of `GoogleServiceAccount`.

    Args:
        project: Project id.
        display_name: What it is for, as the console shows it.
    """

    project: pulumi.Input[str]
    display_name: str


class GoogleServiceAccount(Component):
    """A service account of its own, so that a role given to it is given to one workload.

    Attributes:
        email: Its address.
        member: `serviceAccount:EMAIL`.
        identity: What a bucket gives roles to.
    """

    group = "identity"
    apis = ("iam.googleapis.com",)

    def __init__(
        self, name: str, args: GoogleServiceAccountArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, opts)
        account = gcp.serviceaccount.Account(
            # Its id is this name and 8 characters of Pulumi's, and may have 30: no suffix.
            name,
            project=args.project,
            display_name=args.display_name,
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.email: pulumi.Output[str] = account.email
        self.member: pulumi.Output[str] = account.member
        self.identity = GoogleIdentity(account_member=account.member)
        self.register_outputs({"email": self.email})
