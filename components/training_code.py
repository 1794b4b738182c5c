"""Training code that a workload gets without an image build.

Code is small and changes often. Libraries are large and change rarely. With the code in the image, every
changed line would cost a build of gigabytes (docs/adr/0004-code-by-bucket.md).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pulumi
import pulumi_gcp as gcp
import pulumi_kubernetes as kubernetes

from components.cloud_run import BucketFolder
from components.component import Args, Component
from components.fingerprint import fingerprint
from components.namespace import Namespace


class TrainingCodeArgs(Args):
    """Arguments of `TrainingCode`.

    Args:
        packages: Folders of Python packages. Their modules and recipes are shipped.
    """

    namespace: Namespace
    packages: Sequence[Path]


class TrainingCode(Component[TrainingCodeArgs]):
    """Code for pods: a ConfigMap that never changes. Changed code is another ConfigMap.

    Attributes:
        digest: Digest of the names and texts of all shipped files.
        volume: The `configMap` volume source, which shows every package as a folder.
        access: The ConfigMap, for which a pod that mounts it must wait.
    """

    group = "storage"

    def _declare(self, name: str, args: TrainingCodeArgs) -> None:
        files = package_files(*args.packages)
        self.digest = fingerprint(files)
        config_map_name = f"{name}-code-{self.digest}"
        self.volume: dict[str, Any] = {
            "name": config_map_name,
            "items": [{"key": _key(path), "path": path} for path in files],
        }
        self.access: pulumi.Resource = kubernetes.core.v1.ConfigMap(
            f"{name}-code",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=config_map_name, namespace=args.namespace.namespace
            ),
            data={_key(path): text for path, text in files.items()},
            immutable=True,
            opts=args.namespace.inside(self),
        )


class BucketCodeArgs(Args):
    """Arguments of `BucketCode`.

    Args:
        packages: Folders of Python packages. Their modules and recipes are shipped.
    """

    bucket: pulumi.Input[str]
    packages: Sequence[Path]


class BucketCode(Component[BucketCodeArgs]):
    """Code for Cloud Run: a folder in a bucket that never changes. Changed code is another folder.

    Attributes:
        digest: Digest of the names and texts of all shipped files.
        access: The objects, for which a job that mounts the folder must wait.
    """

    group = "storage"

    def _declare(self, name: str, args: BucketCodeArgs) -> None:
        files = package_files(*args.packages)
        self.digest = fingerprint(files)
        self.folder = BucketFolder(bucket=args.bucket, folder=f"code/{self.digest}")
        self.access: list[pulumi.Resource] = [
            gcp.storage.BucketObject(
                f"{name}-code-{_key(path)}",
                bucket=args.bucket,
                name=f"{self.folder.folder}/{path}",
                content=text,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for path, text in files.items()
        ]


def package_files(*packages: Path) -> dict[str, str]:
    """The texts of all shipped modules and recipes, by their paths below the package's parent, sorted."""
    texts = {}
    for package in packages:
        for path in sorted([*package.glob("*.py"), *package.glob("recipes/*.yaml")]):
            texts[path.relative_to(package.parent).as_posix()] = path.read_text()
    return texts


def _key(path: str) -> str:
    """The key of a file in a ConfigMap, where a slash is not allowed."""
    return path.replace("/", ".")
