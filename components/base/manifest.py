"""Kubernetes manifests: YAML files with named holes, which are filled after parsing.

A hole is `${name}`:
- A scalar that is only a hole becomes the value itself: an output, a number, a mapping.
- A hole inside a longer text inserts the value as text.
- A key that is a hole is replaced by the entries of a mapping.
- A list item that is a hole is replaced by the items of a list.

Outputs stay outputs. So a preview shows every other field, and a digest counts all known text.
"""

import re
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml

from components.base.fingerprint import joined, resolved

# Manifests that every user of a component needs. The manifests of one scenario are in workloads/.
MANIFESTS: Final = Path(__file__).parents[1] / "manifests"

_HOLE: Final = re.compile(r"\$\{(\w+)\}")

Values = Mapping[str, Any]


class ManifestError(Exception):
    """A manifest and its values do not fit. The message names the hole or the value."""


class KubernetesObject(pulumi.CustomResource):
    """An object of any kind. The SDK's `CustomResource` offers no status and no fields besides `spec`."""

    status: pulumi.Output[Any]


class Manifest:
    """A Kubernetes object from a manifest with filled holes.

    Args:
        values: A value for every hole of the file, and no others.

    Attributes:
        tree: The object. Values that are partly known (components.base.fingerprint) are still partly known
            in it.

    Raises:
        ManifestError: If a hole has no value or a value has no hole.
    """

    def __init__(self, path: Path, values: Values) -> None:
        self._path = path
        self._values = values
        self._used: set[str] = set()
        self.tree: dict[str, Any] = self._fill(_parsed(path.read_text()))
        unused = sorted(set(values) - self._used)
        if unused:
            raise ManifestError(f"{path}: no hole for {', '.join(unused)}")

    def create(self, name: str, opts: pulumi.ResourceOptions) -> "KubernetesObject":
        """Registers the object under the logical name `name` and returns the resource."""
        version = self.tree["apiVersion"]
        group = version if "/" in version else f"core/{version}"
        kind = f"kubernetes:{group}:{self.tree['kind']}"
        return KubernetesObject(kind, name, {**resolved(self.tree), "status": None}, opts)

    def _fill(self, node: Any) -> Any:
        if isinstance(node, dict):
            return self._fill_mapping(node)
        if isinstance(node, list):
            return list(chain.from_iterable(map(self._fill_item, node)))
        if isinstance(node, str):
            return self._fill_text(node)
        return node

    def _fill_mapping(self, node: dict[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = {}
        for key, value in node.items():
            hole = _HOLE.fullmatch(key)
            if hole:
                filled.update(self._value(hole[1]))
            else:
                filled[key] = self._fill(value)
        return filled

    def _fill_item(self, node: Any) -> list[Any]:
        """The items that replace an item of a list: several if it is a hole for a list."""
        filled = self._fill(node)
        is_hole_for_list = isinstance(node, str) and isinstance(filled, list)
        return filled if is_hole_for_list else [filled]

    def _fill_text(self, text: str) -> Any:
        hole = _HOLE.fullmatch(text)
        if hole:
            return self._value(hole[1])
        pieces = _HOLE.split(text)
        if len(pieces) == 1:
            return text
        pieces[1::2] = [self._value(name) for name in pieces[1::2]]
        return joined(*pieces)

    def _value(self, name: str) -> Any:
        if name not in self._values:
            raise ManifestError(f"{self._path}: no value for ${{{name}}}")
        self._used.add(name)
        return self._values[name]


@cache  # a rehearsal runs the program many times, and nothing changes the tree
def _parsed(text: str) -> Any:
    return yaml.load(text, yaml.CSafeLoader)
