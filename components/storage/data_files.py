"""Rows for a training that are on the user's disk: `pulumi up` puts them into the stack's bucket."""

from collections.abc import Mapping
from pathlib import Path

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component


class DataFilesArgs(Args):
    """Arguments of `DataFiles`.

    Args:
        files: Files on the disk, by their names in the bucket. A name contains a digest of the content.
    """

    bucket: pulumi.Input[str]
    files: Mapping[str, Path]


class DataFiles(Component[DataFilesArgs]):
    """Files in a bucket.

    Attributes:
        access: The objects, for which a job that reads the files must wait.
    """

    def _declare(self, name: str, args: DataFilesArgs) -> None:
        self.access: list[pulumi.Resource] = [
            gcp.storage.BucketObject(
                f"{name}-{object_name.replace('/', '.')}",
                bucket=args.bucket,
                name=object_name,
                source=pulumi.FileAsset(str(path)),
                opts=pulumi.ResourceOptions(parent=self),
            )
            for object_name, path in args.files.items()
        ]
