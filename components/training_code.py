"""Training code that pods get without an image build."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from components.component import Component
from components.fingerprint import fingerprint
from components.namespace import Namespace
from components.package_files import package_files

# Kubernetes refuses a ConfigMap whose data is over 1 MiB.
_MAX_BYTES: Final = 1_048_576


@dataclass(frozen=True, kw_only=True)
class TrainingCodeArgs:
    """Arguments of `TrainingCode`.

    Args:
        namespace: Namespace whose pods mount the code.
        package: Folder of a Python package; its modules and recipes are shipped.
    """

    namespace: Namespace
    package: Path


class TrainingCode(Component):
    """A ConfigMap that never changes: other code is another ConfigMap.

    Attributes:
        digest: Of every shipped file's name and text.
        volume: The `configMap` volume source that lays the package out as a folder.
        access: What a pod that mounts it must wait for.
    """

    group = "storage"

    def __init__(self, name: str, args: TrainingCodeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        files = _files(args.package)
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
        self.register_outputs({})


def _files(package: Path) -> dict[str, str]:
    """What is shipped of a package.

    Raises:
        ValueError: When it does not fit into a ConfigMap.
    """
    files = package_files(package)
    size = sum(len(path) + len(text.encode()) for path, text in files.items())
    if size > _MAX_BYTES:
        raise ValueError(
            f"{package} is {size:,} bytes and a ConfigMap holds {_MAX_BYTES:,}; "
            "move what is not code out of it"
        )
    return files


def _key(path: str) -> str:
    """A ConfigMap key may not hold a slash."""
    return path.replace("/", ".")
