"""Holes of a manifest are filled all of them, and nothing else."""

from pathlib import Path
from typing import Any

import pulumi
import pytest

from components.base.fingerprint import fingerprint, resolved
from components.base.manifest import Manifest, ManifestError

TEXT = """
kind: Thing
metadata: {name: "${name}"}
spec:
  whole: ${number}
  inside: gs://${bucket}/${name}
  list: ["${name}", plain, 3, "${items}"]
  selector:
    fixed: "yes"
    ${more}:
"""
VALUES: dict[str, Any] = {"name": "n", "number": 7, "bucket": "b", "more": {"added": "1"}, "items": [4, 5]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "thing.yaml"
    file.write_text(TEXT)
    return file


def test_values_go_in_whole_inside_texts_and_as_entries(path: Path) -> None:
    assert Manifest(path, VALUES).tree == {
        "kind": "Thing",
        "metadata": {"name": "n"},
        "spec": {
            "whole": 7,
            "inside": "gs://b/n",
            "list": ["n", "plain", 3, 4, 5],
            "selector": {"fixed": "yes", "added": "1"},
        },
    }


@pulumi.runtime.test
def test_an_output_stays_an_output_and_leaves_its_neighbours_known(path: Path) -> Any:
    bucket = pulumi.Output.from_input("unknown-yet")
    tree = Manifest(path, {**VALUES, "bucket": bucket}).tree
    spec = resolved(tree)["spec"]
    assert spec["whole"] == 7
    assert fingerprint(tree) != fingerprint(Manifest(path, {**VALUES, "bucket": bucket, "name": "m"}).tree)
    return spec["inside"].apply(lambda text: _equal(text, "gs://unknown-yet/n"))


def _equal(left: str, right: str) -> None:
    assert left == right


def test_a_hole_without_a_value_is_an_error(path: Path) -> None:
    values = {key: value for key, value in VALUES.items() if key != "bucket"}
    with pytest.raises(ManifestError, match=r"thing.yaml: no value for \$\{bucket\}"):
        Manifest(path, values)


def test_a_value_without_a_hole_is_an_error(path: Path) -> None:
    with pytest.raises(ManifestError, match=r"thing\.yaml: no hole for extra"):
        Manifest(path, {**VALUES, "extra": 1})
