"""Where the stacks' state lives, and the key that its secrets are encrypted with."""

from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

_QUARTER: Final = f"{90 * 24 * 3600}s"
# By age and not by number: one `up` writes the state once per resource.
_KEPT_DAYS: Final = 30


@dataclass(frozen=True, kw_only=True)
class StateStoreArgs:
    """Arguments of `StateStore`.

    Args:
        project: Project id, known once its APIs are enabled.
    """

    project: pulumi.Input[str]
    location: str


class StateStore(pulumi.ComponentResource):
    """A bucket with a history, and a key; neither is destroyed with the bootstrap.

    Attributes:
        bucket_name: The bucket's name, without `gs://`.
        key_id: Id of the key, `projects/...`.
    """

    def __init__(self, name: str, args: StateStoreArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("llm-stacks-bootstrap:components:StateStore", name, None, opts)
        # Without the state nothing knows what exists; without the key nothing can read the state.
        kept = pulumi.ResourceOptions(parent=self, protect=True)
        bucket = gcp.storage.Bucket(
            f"{name}-bucket",
            project=args.project,
            location=args.location,
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            versioning=gcp.storage.BucketVersioningArgs(enabled=True),
            # A version goes a month after a newer one took its place.
            lifecycle_rules=[
                gcp.storage.BucketLifecycleRuleArgs(
                    action=gcp.storage.BucketLifecycleRuleActionArgs(type="Delete"),
                    condition=gcp.storage.BucketLifecycleRuleConditionArgs(
                        days_since_noncurrent_time=_KEPT_DAYS, with_state="ARCHIVED"
                    ),
                )
            ],
            force_destroy=False,
            opts=kept,
        )
        ring = gcp.kms.KeyRing(f"{name}-ring", project=args.project, location=args.location, opts=kept)
        key = gcp.kms.CryptoKey(
            f"{name}-key", key_ring=ring.id, purpose="ENCRYPT_DECRYPT", rotation_period=_QUARTER, opts=kept
        )
        self.bucket_name: pulumi.Output[str] = bucket.name
        self.key_id: pulumi.Output[str] = key.id
        self.register_outputs({"bucket": bucket.name, "key": key.id})
