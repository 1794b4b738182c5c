"""The topic of the bucket in which runs are kept."""

from typing import Annotated

from pydantic import Field

from stacks.settings.model import ConfigModel, Hint, rule


class Bucket(ConfigModel):
    """Bucket of the runs."""

    force_destroy: bool = Field(
        False,
        description="Whether `pulumi destroy`, or an `up` that replaces the bucket, may delete the bucket "
        "with everything that runs have written. If false, both fail before anything is deleted, and the "
        "outputs `destroyAll` and `destroyAllButBucket` are the two commands that succeed.",
    )
    bucket: Annotated[str | None, Hint(values="gs://NAME, without a folder")] = Field(
        None,
        pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$",
        examples=["gs://MY_BUCKET"],
        description="A bucket that exists, in place of one of the stack's own. The runs are in its folder "
        "with the stack's name. `pulumi destroy` deletes neither the bucket nor a run. On a stack that is up "
        "the stack's own bucket goes, with everything that runs have written: copy the runs first. If the "
        "last `up` had `forceDestroy` false, the engine refuses that before anything is deleted.",
    )
    bucket_name: Annotated[
        str | None,
        Field(pattern=r"^[a-z][a-z0-9-]{1,61}[a-z0-9]$", examples=["NAME"]),
        # Google accepts lower-case letters, digits and hyphens in most names.
        Hint(values="3 to 63 lower-case letters, digits and hyphens that start with a letter"),
    ] = Field(
        None,
        description="Name of the bucket. By default Pulumi generates a unique name. Another name on a stack "
        "that is up replaces the bucket: the old bucket is deleted first, with everything that runs have "
        "written. With `forceDestroy` false that fails. Without the setting the bucket keeps its name.",
    )

    @rule("bucketName")
    def _name_is_not_googles(self) -> None:
        """Rejects names that Cloud Storage refuses. https://docs.cloud.google.com/storage/docs/buckets#naming"""
        name = self.bucket_name
        if name and (name.startswith("goog") or "google" in name):
            raise ValueError(f"{name!r} begins with goog or contains google, which Cloud Storage refuses")

    @rule("bucket")
    def _excludes_one_of_its_own(self) -> None:
        own = {"bucketName": self.bucket_name, "forceDestroy": self.force_destroy}
        keys = " and ".join(key for key, value in own.items() if value)
        if self.bucket and keys:
            raise ValueError(f"the stack then has no bucket of its own; remove {keys}, or bucket")
