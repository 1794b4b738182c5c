"""Files of a person's own program, which its pods get without an image build."""

import re
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.cluster.namespace import Namespace


class ProgramCodeArgs(Args):
    """Arguments of `ProgramCode`.

    Args:
        files: Texts by their paths.
    """

    namespace: Namespace
    files: Mapping[str, str]


class ProgramCode(Component[ProgramCodeArgs]):
    """Files for pods: a ConfigMap that never changes. Other files are another ConfigMap.

    Attributes:
        volume: The `configMap` volume source, which shows the files with their folders.
        access: The ConfigMap, for which a pod that mounts it must wait.
    """

    def _declare(self, name: str, args: ProgramCodeArgs) -> None:
        keys = _keys(args.files)
        config_map_name = f"{name}-{fingerprint(dict(args.files))}"
        self.volume: dict[str, Any] = {
            "name": config_map_name,
            "items": [{"key": key, "path": path} for path, key in keys.items()],
        }
        self.access: pulumi.Resource = kubernetes.core.v1.ConfigMap(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=config_map_name, namespace=args.namespace.namespace
            ),
            data={keys[path]: text for path, text in args.files.items()},
            immutable=True,
            opts=args.namespace.inside(self),
        )


def _keys(paths: Mapping[str, str]) -> dict[str, str]:
    """Keys of a ConfigMap by path. A key takes no slash and few other characters, and two paths have two."""
    keys: dict[str, str] = {}
    for path in paths:
        key = re.sub(r"[^-._a-zA-Z0-9]", ".", path)[-200:]
        keys[path] = f"{key}-{fingerprint(path)}" if key in keys.values() else key
    return keys
