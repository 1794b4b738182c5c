"""A folder of a bucket as a volume of a container on Cloud Run."""

from dataclasses import dataclass
from typing import Any, Final

import pulumi

# User and group of the images in workloads/. Cloud Run has no field for them.
_IMAGE_USER: Final = 1000


@dataclass(frozen=True, kw_only=True)
class BucketFolder:
    """A folder of a bucket that a container can read as files but cannot write to.

    Args:
        folder: Path of the folder, without a slash at either end.
    """

    bucket: pulumi.Input[str]
    folder: str

    def mounted(self) -> dict[str, Any]:
        """Arguments of a volume that shows only this folder.

        `implicit-dirs` shows directories that exist only as parts of object names. By default GCS FUSE gives
        the files to root, so the options name the images' user. A container that runs as root can read the
        files too. https://docs.cloud.google.com/storage/docs/cloud-storage-fuse/cli-options
        """
        # assumption cloud-run-mount-options
        owner = [f"uid={_IMAGE_USER}", f"gid={_IMAGE_USER}"]
        return {"bucket": self.bucket, "mount_options": [f"only-dir={self.folder}", "implicit-dirs", *owner]}
