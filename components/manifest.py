"""Kubernetes manifests: YAML files with named holes, filled on the parsed tree.

A hole is `${name}`. A scalar that is nothing but a hole becomes the value itself (an output, a
number, a mapping); inside a longer text the value is inserted as text; a key that is a hole takes
in the entries of a mapping, and an item of a list that is a hole those of a list. Values that are outputs
stay outputs, so that a preview shows every other field, and a digest counts every word beside them.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml

from components.fingerprint import joined, resolved

# Manifests that every user of a component needs; a scenario's own are under workloads/.
MANIFESTS: Final = Path(__file__).parent / "manifests"

_HOLE: Final = re.compile(r"\$\{(\w+)\}")

Values = Mapping[str, Any]


class ManifestError(Exception):
    """A manifest and the values for it do not fit; says which hole or value."""


class KubernetesObject(pulumi.CustomResource):
    """An object of any kind. The SDK's class for one has no fields beside `spec`, and no status."""

    status: pulumi.Output[Any]


class Manifest:
    """One filled Kubernetes object.

    Args:
        values: A value for every hole of the file, and no other.

    Attributes:
        tree: The object; what is partly known (components.fingerprint) is still so in it.

    Raises:
        ManifestError: For a hole without a value or a value without a hole.
    """

    def __init__(self, path: Path, values: Values) -> None:
        self._path = path
        self._values = values
        self._used: set[str] = set()
        self.tree: dict[str, Any] = self._fill(yaml.load(path.read_text(), yaml.CSafeLoader))
        unused = sorted(set(values) - self._used)
        if unused:
            raise ManifestError(f"{path}: no hole for {', '.join(unused)}")

    def create(self, name: str, opts: pulumi.ResourceOptions) -> "KubernetesObject":
        """Registers the object under the logical name `name`."""
        version = self.tree["apiVersion"]
        group = version if "/" in version else f"core/{version}"
        kind = f"kubernetes:{group}:{self.tree['kind']}"
        return KubernetesObject(kind, name, {**resolved(self.tree), "status": None}, opts)

    def _fill(self, node: Any) -> Any:
        if isinstance(node, dict):
            return self._fill_mapping(node)
        if isinstance(node, list):
            return [each for item in node for each in self._fill_item(item)]
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
        filled = self._fill(node)
        return filled if isinstance(node, str) and isinstance(filled, list) else [filled]

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
