"""Our schemas of custom kinds beside the definitions that the API server serves."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rehearsal.control_plane.api import Api
from rehearsal.rules import json_schema

_Schema = Mapping[str, Any]


def differences(api: Api, file: str, kind: str) -> list[str]:
    """Where our schema has fields, types or choices that the definition has not, or other requirements."""
    definitions = api.list("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    (crd,) = (each for each in definitions if each["spec"]["names"]["kind"] == kind)
    (version,) = (each for each in crd["spec"]["versions"] if each["storage"])
    theirs = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    named = yaml.safe_load(Path(json_schema.__file__).with_name(file).read_text())["$defs"]
    return list(_differences(named, named[kind], theirs, "spec"))


def _differences(named: _Schema, ours: _Schema, theirs: _Schema, path: str) -> Iterator[str]:
    ours = named[ours["$ref"].rpartition("/")[2]] if "$ref" in ours else ours
    if theirs.get("type", "string") not in ours.get("type", "string"):
        yield f"{path}: is no {ours['type']}"
    if "enum" in theirs and not {*ours.get("enum", ("no choice",))} <= {*theirs["enum"]}:
        yield f"{path}: may only be {theirs['enum']}"
    if "properties" in ours and {*ours.get("required", ())} != {*theirs.get("required", ())}:
        yield f"{path}: requires {theirs.get('required')}"
    for name, below in ours.get("properties", {}).items():
        known = theirs["properties"].get(name)
        yield from (
            _differences(named, below, known, f"{path}.{name}") if known else [f"{path}: has no {name}"]
        )
    for inner in ("items", "additionalProperties"):
        if ours.get(inner):
            yield from _differences(named, ours[inner], theirs[inner], f"{path}[]")
