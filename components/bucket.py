"""A private bucket, and the identities that may write to it or read from it."""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.component import Args, Component
from components.fingerprint import PartlyKnown
from components.identity import Identity
from components.remedies import DESTROY_ALL, KEEP_BUCKET

# objectUser reads, writes and deletes objects. objectViewer only reads them. legacyBucketReader
# reads the bucket's metadata, which client libraries and gcsfuse request first.
_METADATA_ROLE: Final = "roles/storage.legacyBucketReader"
_WRITER_ROLES: Final = {"objects": "roles/storage.objectUser", "metadata": _METADATA_ROLE}
_READER_ROLES: Final = {"objects": "roles/storage.objectViewer", "metadata": _METADATA_ROLE}


class BucketArgs(Args):
    """Arguments of `Bucket`.

    Args:
        location: Region of the machines that use the bucket.
        writers: Identities that read and write objects. The key becomes part of the binding's name.
        force_destroy: Whether destroy also deletes the objects. If False, the bucket is protected:
            `pulumi destroy` fails before it deletes anything.
        soft_delete_days: Days for which Google keeps what was deleted or overwritten, and bills it: 0 for
            not at all, or 7 to 90.
        readers: Identities that can only read objects, keyed like `writers`.
        hierarchical: Whether the bucket has real folders. Renaming a real folder is a single step, which
            checkpoints written through a mount need. It cannot be changed later.
        bucket_name: Fixed name, unique among all buckets at Google. By default Pulumi generates a name.
    """

    project: pulumi.Input[str]
    location: str
    labels: Mapping[str, str]
    writers: Mapping[str, Identity]
    force_destroy: bool
    soft_delete_days: int
    readers: Mapping[str, Identity] = field(default_factory=dict)
    hierarchical: bool = False
    bucket_name: str | None = None


class Bucket(Component[BucketArgs]):
    """A bucket that is never public.

    Attributes:
        bucket_name: Its name, without `gs://`.
        name_in_command: Its name for the command of a job. A fixed name counts in the job's digest.
        access: The bindings, for which a workload that uses the bucket must wait.
    """

    group = "storage"
    apis = ("storage.googleapis.com",)

    def _declare(self, name: str, args: BucketArgs) -> None:
        folders = gcp.storage.BucketHierarchicalNamespaceArgs(enabled=True)
        bucket = gcp.storage.Bucket(
            f"{name}-bucket",
            name=args.bucket_name,
            project=args.project,
            location=args.location,
            labels=args.labels,
            # Workload Identity Federation writes only to buckets without per-object access lists.
            uniform_bucket_level_access=True,
            public_access_prevention="enforced",
            soft_delete_policy=gcp.storage.BucketSoftDeletePolicyArgs(
                retention_duration_seconds=args.soft_delete_days * 24 * 3600
            ),
            hierarchical_namespace=folders if args.hierarchical else None,
            force_destroy=args.force_destroy,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Without protection, destroy deletes the cluster first and fails only afterwards,
                # because the bucket is not empty.
                protect=not args.force_destroy,
            ),
        )
        self._protected = not args.force_destroy
        self.access: list[pulumi.Resource] = []
        for users, roles in ((args.writers, _WRITER_ROLES), (args.readers, _READER_ROLES)):
            for user, identity in users.items():
                self._grant(f"{name}-{user}", bucket, identity, roles)
        self.bucket_name: pulumi.Output[str] = bucket.name
        self.name_in_command = PartlyKnown(bucket.name, args.bucket_name)

    def _grant(
        self, name: str, bucket: gcp.storage.Bucket, identity: Identity, roles: Mapping[str, str]
    ) -> None:
        for what, role in roles.items():
            binding = gcp.storage.BucketIAMMember(
                f"{name}-{what}",
                bucket=bucket.name,
                role=role,
                member=identity.iam_member(bucket.project_number.apply(str)),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.access.append(binding)

    @property
    def removal(self) -> dict[str, str]:
        """The commands that remove a stack with a protected bucket, keyed by the stack output's name.

        The engine alone words its refusal to delete the bucket, and no hook of ours runs before it.
        """
        return {"destroyAll": DESTROY_ALL, "destroyAllButBucket": KEEP_BUCKET} if self._protected else {}

    def commands(self, run: str, result: str = "adapter") -> dict[str, pulumi.Input[str]]:
        """A training run's name, commands that read what it has written, and those that remove the stack.

        The keys are the names of the stack's outputs.

        Args:
            run: The run's folder in the bucket.
            result: The folder inside the run's folder that is worth copying.
        """
        folder = pulumi.Output.concat("gs://", self.bucket_name, "/", run)
        return {
            "run": run,
            "readMetrics": pulumi.Output.concat("gcloud storage cat ", folder, "/metrics.jsonl"),
            "listCheckpoints": pulumi.Output.concat("gcloud storage ls ", folder, "/"),
            f"copy{result.capitalize()}": pulumi.Output.concat(
                "gcloud storage cp --recursive ", folder, f"/{result} ."
            ),
            **self.removal,
        }
