"""A private bucket, or one that exists already, and the identities that may write to it or read from it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.base.component import A, Args, Component
from components.base.encryption import bucket_encryption
from components.base.fingerprint import PartlyKnown, joined
from components.base.remedy import DESTROY_ALL, KEEP_BUCKET
from components.identity.identity import Identity, ServiceAccount

# objectUser reads, writes and deletes objects. objectViewer only reads them. legacyBucketReader
# reads the bucket's metadata, which client libraries and gcsfuse request first.
_METADATA_ROLE: Final = "roles/storage.legacyBucketReader"
_WRITER: Final = "roles/storage.objectUser"
_READER: Final = "roles/storage.objectViewer"
# What `up` writes, and nobody else: the code of Cloud Run, rows from the user's disk, scripts of nodes. A
# training only reads these, so that what runs in it cannot change what runs next.
_UPLOADS: Final = ("code/", "data/", "nodes/")
# A role, and the condition under which its holder has it.
_Role = tuple[str, pulumi.Output[str]]
# IAM refuses a longer title of a condition.
_LONGEST_TITLE: Final = 100
# Google's own agent of GKE, whose address contains the project's number: assumption number-in-agent.
_AGENT_OF: Final = "container.googleapis.com"


class Storage(Component[A]):
    """The place of the runs: a bucket, or a folder in one.

    Attributes:
        bucket_name: Name of the bucket, without `gs://`.
        prefix: Start of the names of all objects, empty or with a slash at its end.
        more_prefixes: Starts of the names of further objects that the accounts reach.
        name_in_command: The bucket's name for the command of a job. A fixed name counts in the job's digest.
        project_number: Number of the stack's project, which the names of its pods' identities contain.
        access: The bindings, for which a workload that uses the bucket must wait.
        removal: The commands that remove a stack whose bucket is protected, keyed by the stack output's name.
            The engine alone words its refusal to delete the bucket, and no hook of ours runs before it.
    """

    apis = ("storage.googleapis.com",)

    bucket_name: pulumi.Output[str]
    prefix: str = ""
    more_prefixes: Sequence[str] = ()
    name_in_command: str | PartlyKnown
    project_number: pulumi.Input[str] = ""
    access: Sequence[pulumi.Resource]
    removal: Mapping[str, str] = {}

    @property
    def path_in_command(self) -> str | PartlyKnown:
        """What follows `gs://` in the command of a job."""
        folder = self.prefix.rstrip("/")
        return joined(self.name_in_command, "/", folder) if folder else self.name_in_command

    @property
    def uri(self) -> pulumi.Output[str]:
        """Address of the place of the runs, without a slash at its end."""
        return pulumi.Output.concat("gs://", self.bucket_name, f"/{self.prefix}".rstrip("/"))

    def commands(self, run: str, *results: str) -> dict[str, pulumi.Input[str]]:
        """A training run's name, commands that read what it has written, and those that remove the stack.

        The keys are the names of the stack's outputs.

        Args:
            run: The run's folder in the place of the runs.
            results: The folders inside the run's folder that are worth copying.
        """
        folder = pulumi.Output.concat(self.uri, "/", run)
        return {
            "run": run,
            "readMetrics": pulumi.Output.concat("gcloud storage cat ", folder, "/metrics.jsonl"),
            "listCheckpoints": pulumi.Output.concat("gcloud storage ls ", folder, "/"),
            **{
                f"copy{result.capitalize()}": pulumi.Output.concat(
                    "gcloud storage cp --recursive ", folder, f"/{result} ."
                )
                for result in results
            },
            **self.removal,
        }

    def let_read(self, name: str, user: str, identity: Identity, *folders: str) -> list[pulumi.Resource]:
        """Declares that one more identity can read folders, and returns what its workload must wait for.

        Args:
            name: Logical name of the scenario.
            user: Part of the bindings' names, such as `serving`.
            folders: Folders in the place of the runs, without a slash at either end.
        """
        inside = self._inside(*(f"{self.prefix}{folder}/" for folder in folders))
        return self._granted(name, user, identity, {"objects": (_READER, inside)})

    def _accesses(
        self, name: str, writers: Mapping[str, Identity], readers: Mapping[str, Identity] = {}
    ) -> list[pulumi.Resource]:
        """Declares the bindings of those who write and of those who only read."""
        whole = self._inside(self.prefix, *self.more_prefixes) if self.prefix else self._everywhere()
        uploads = self._inside(*(f"{self.prefix}{folder}" for folder in _UPLOADS))
        written = uploads.apply("!({})".format)
        if self.prefix:
            written = pulumi.Output.concat("(", whole, ") && ", written)
        access: list[pulumi.Resource] = []
        for user, identity in writers.items():
            roles = {"objects": (_WRITER, written), "uploads": (_READER, uploads)}
            access += self._granted(name, user, identity, roles)
        for user, identity in readers.items():
            access += self._granted(name, user, identity, {"objects": (_READER, whole)})
        return access

    def _granted(
        self, name: str, user: str, identity: Identity, roles: Mapping[str, _Role]
    ) -> list[pulumi.Resource]:
        """Declares the bindings. A binding has one member and leaves those of others alone.

        Names of objects can be listed in the whole bucket, because no condition bounds a list. Metadata of
        the bucket comes with it.

        A member, a role and a condition are one binding at Google. If two resources declare it, the first
        deletion takes it from both. One account may train and serve, in several stacks with one bucket. So
        the title of every condition names the user and the stack.
        """
        bindings: Mapping[str, _Role] = {**roles, "metadata": (_METADATA_ROLE, self._everywhere())}
        return [
            gcp.storage.BucketIAMMember(
                f"{name}-{user}-{what}",
                bucket=self.bucket_name,
                role=role,
                member=identity.iam_member(self.project_number),
                condition=gcp.storage.BucketIAMMemberConditionArgs(
                    title=f"{user} of {pulumi.get_stack()}"[:_LONGEST_TITLE], expression=expression
                ),
                opts=pulumi.ResourceOptions(parent=self),
            )
            for what, (role, expression) in bindings.items()
        ]

    def _everywhere(self) -> pulumi.Output[str]:
        """The condition that the bucket is this one, which holds for all that is in it too."""
        return pulumi.Output.concat('resource.name.startsWith("projects/_/buckets/', self.bucket_name, '")')

    def _inside(self, *prefixes: str) -> pulumi.Output[str]:
        """The condition that the name of an object or a folder begins with one of these.

        In a bucket with real folders these are resources too (assumption folder-in-condition).
        """
        inside = [
            pulumi.Output.concat(
                'resource.name.startsWith("projects/_/buckets/', self.bucket_name, f'/{kind}/{prefix}")'
            )
            for prefix in prefixes
            for kind in ("objects", "folders")
        ]
        return pulumi.Output.all(*inside).apply(" || ".join)


class BucketArgs(Args):
    """Arguments of `Bucket`.

    Args:
        location: Region of the machines that use the bucket.
        writers: Identities that read and write objects. The key becomes part of the binding's name.
        force_destroy: Whether destroy also deletes the objects. If False, the bucket is protected:
            `pulumi destroy` fails before it deletes anything.
        soft_delete_days: Days for which Google keeps what was deleted or overwritten, and bills it: 0 for
            not at all, or 7 to 90.
        hierarchical: Whether the bucket has real folders. Renaming a real folder is a single step, which
            checkpoints written through a mount need. It cannot be changed later.
        bucket_name: Fixed name, unique among all buckets at Google. By default Pulumi generates a name.
        kms_key: Path of the key that encrypts new objects. None means a key of Google's.
    """

    project: pulumi.Input[str]
    location: str
    labels: Mapping[str, str]
    writers: Mapping[str, Identity]
    force_destroy: bool
    soft_delete_days: int
    hierarchical: bool = False
    bucket_name: str | None = None
    kms_key: str | None = None


class Bucket(Storage[BucketArgs]):
    """A bucket that is never public."""

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
            encryption=bucket_encryption(args.kms_key),
            force_destroy=args.force_destroy,
            opts=pulumi.ResourceOptions(
                parent=self,
                # Without protection, destroy deletes the cluster first and fails only afterwards,
                # because the bucket is not empty.
                protect=not args.force_destroy,
            ),
        )
        self.bucket_name = bucket.name
        self.name_in_command = PartlyKnown(bucket.name, args.bucket_name)
        self.project_number = bucket.project_number.apply(str)
        self.access = self._accesses(name, args.writers)
        if not args.force_destroy:
            self.removal = {"destroyAll": DESTROY_ALL, "destroyAllButBucket": KEEP_BUCKET}


class ExistingBucketArgs(Args):
    """Arguments of `ExistingBucket`.

    Args:
        project: Project of the stack. The bucket may be in another.
        bucket_name: Name of the bucket.
        folder: Name of the folder with the runs of this stack.
        writers: Identities that read and write objects in the folder. The key becomes part of the binding's
            name.
        readers: Identities that can only read objects, keyed like `writers`.
        more_folders: Further folders that all of them reach.
    """

    project: pulumi.Input[str]
    bucket_name: str
    folder: str
    writers: Mapping[str, Identity]
    readers: Mapping[str, Identity] = field(default_factory=dict)
    more_folders: Sequence[str] = ()


class ExistingBucket(Storage[ExistingBucketArgs]):
    """A folder in a bucket of somebody else's. Nothing here creates, changes or deletes the bucket.

    The bucket is not read either, so a preview works without an account. `preflight` looks at it.
    """

    def _declare(self, name: str, args: ExistingBucketArgs) -> None:
        self.bucket_name = pulumi.Output.from_input(args.bucket_name)
        self.name_in_command = args.bucket_name
        self.prefix = f"{args.folder}/"
        self.more_prefixes = [f"{folder}/" for folder in args.more_folders]
        accounts = [*args.writers.values(), *args.readers.values()]
        pods = [account.access for account in accounts if isinstance(account, ServiceAccount)]
        if pods:
            self.project_number = self._number_of(name, args.project, pods)
        self.access = self._accesses(name, args.writers, args.readers)

    def _number_of(
        self, name: str, project: pulumi.Input[str], depends_on: list[pulumi.Resource]
    ) -> pulumi.Output[str]:
        """The number of the stack's project, from the address of one of Google's agents in it."""
        agent = gcp.projects.ServiceIdentity(
            f"{name}-agent",
            project=project,
            service=_AGENT_OF,
            opts=pulumi.ResourceOptions(parent=self, depends_on=depends_on),
        )
        return agent.email.apply(lambda address: address.partition("@")[0].rpartition("-")[2])
