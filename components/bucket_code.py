"""Training code that a Cloud Run job gets without an image build."""

from dataclasses import dataclass
from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from components.cloud_run import BucketFolder
from components.component import Component
from components.fingerprint import fingerprint
from components.package_files import package_files


@dataclass(frozen=True, kw_only=True)
class BucketCodeArgs:
    """Arguments of `BucketCode`.

    Args:
        bucket: Name of the bucket.
        package: Folder of a Python package; its modules and recipes are shipped.
    """

    bucket: pulumi.Input[str]
    package: Path


class BucketCode(Component):
    """A folder of a bucket that never changes: other code is another folder.

    Code changes often and is small, libraries seldom and are large: in the image a changed line
    would cost a build of gigabytes (docs/adr/0004-code-by-bucket.md).

    Attributes:
        digest: Of every shipped file's name and text.
        folder: The folder that holds the package.
        access: What a job that mounts it must wait for.
    """

    group = "storage"

    def __init__(self, name: str, args: BucketCodeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        files = package_files(args.package)
        self.digest = fingerprint(files)
        self.folder = BucketFolder(bucket=args.bucket, folder=f"code/{self.digest}")
        self.access: list[pulumi.Resource] = [
            gcp.storage.BucketObject(
                f"{name}-code-{path.replace('/', '.')}",
                bucket=args.bucket,
                name=f"{self.folder.folder}/{path}",
                content=text,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for path, text in files.items()
        ]
        self.register_outputs({"digest": self.digest})
