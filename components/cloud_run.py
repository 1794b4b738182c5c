"""What jobs and services on Cloud Run have in common."""

from dataclasses import dataclass
from typing import Final

import pulumi

# https://docs.cloud.google.com/run/docs/configuring/services/gpu
L4: Final = "nvidia-l4"
# All traffic, not only that to private addresses, goes through the stack's subnet and its NAT.
ALL_TRAFFIC: Final = "ALL_TRAFFIC"


@dataclass(frozen=True, kw_only=True)
class BucketFolder:
    """A folder of a bucket that a container reads as files and cannot write to.

    Args:
        bucket: Name of the bucket.
        folder: Path of the folder, without a slash at either end.
    """

    bucket: pulumi.Input[str]
    folder: str

    @property
    def mount_options(self) -> list[str]:
        """Options of gcsfuse: this folder alone, whose directories are but parts of object names."""
        return [f"only-dir={self.folder}", "implicit-dirs"]


@dataclass(frozen=True, kw_only=True)
class SecretVersion:
    """One version of a secret; the container gets its value when it starts.

    Args:
        secret_id: Id in Secret Manager.
        version: Number of the version, never `latest`: a container must not change by itself.
    """

    secret_id: pulumi.Input[str]
    version: pulumi.Input[str]


@dataclass(frozen=True, kw_only=True)
class L4Machine:
    """What a container runs on: one L4 GPU, and this.

    Args:
        cpu: Number of CPUs; Cloud Run asks for 4 at least.
        memory_gib: Memory, the container's file system included; 16 at least.
    """

    cpu: int
    memory_gib: int

    def __post_init__(self) -> None:
        if self.cpu not in (4, 6, 8):
            raise ValueError(f"{self.cpu} CPUs: Cloud Run has an L4 with 4, 6 or 8")
        if not 16 <= self.memory_gib <= 32:
            raise ValueError(f"{self.memory_gib} GiB of memory: Cloud Run has an L4 with 16 to 32")

    @property
    def limits(self) -> dict[str, str]:
        """As Cloud Run writes them."""
        return {"cpu": str(self.cpu), "memory": f"{self.memory_gib}Gi", "nvidia.com/gpu": "1"}


def volume_name(path: str) -> str:
    """Name of the volume that is mounted at a path."""
    return path.strip("/").replace("/", "-")
