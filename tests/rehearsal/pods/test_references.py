"""What a pod's variables and volumes refer to."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.pods.references import environment, expanded, lay_out

POD = {"metadata": {"name": "tried", "labels": {"app": "mine"}}, "status": {"podIP": "10.8.0.2"}}
OBJECTS = {
    ("ConfigMap", "code"): {"a": "one", "b": "two"},
    ("Secret", "token"): {"token": "hidden", "other": "more"},
}


def read(kind: str, reference: Mapping[str, Any]) -> Mapping[str, str]:
    return OBJECTS[kind, reference["name"]]


def test_variables_come_from_fields_secrets_and_each_other() -> None:
    env = [
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}},
        {"name": "BOTH", "value": "$(APP)-$(TOKEN)-$(LATER)"},
        {"name": "LATER", "value": "later"},
    ]
    variables = environment(POD, {"env": env}, read)
    assert list(variables.values()) == ["mine", "10.8.0.2", "hidden", "mine-hidden-$(LATER)", "later"]
    assert expanded("--token=$(TOKEN)", variables) == "--token=hidden"


def test_a_key_that_a_secret_does_not_have_is_named_unless_it_is_optional() -> None:
    reference = {"name": "token", "key": "missing"}
    with pytest.raises(RehearsalError, match="couldn't find key missing in secret token"):
        environment(POD, {"env": [{"name": "X", "valueFrom": {"secretKeyRef": reference}}]}, read)
    optional = {**reference, "optional": True}
    assert environment(POD, {"env": [{"name": "X", "valueFrom": {"secretKeyRef": optional}}]}, read) == {}


def test_files_of_a_config_map_are_laid_out_as_its_items_say(tmp_path: Path) -> None:
    items = [{"key": "a", "path": "package/a.py"}, {"key": "b", "path": "package/more/b.py"}]
    volume = {"configMap": {"name": "code", "items": items}}
    path, _ = lay_out({"name": "code", **volume}, tmp_path, tmp_path.joinpath, read)
    assert (path / "package").readlink() == Path("..data/package")
    assert (path / "package/a.py").read_text() + (path / "package/more/b.py").read_text() == "onetwo"


def test_a_projection_has_the_files_of_config_maps_and_secrets(tmp_path: Path) -> None:
    items = [{"key": "token", "path": "below/token"}]
    sources = [{"configMap": {"name": "code"}}, {"secret": {"name": "token", "items": items}}]
    path, writable = lay_out(
        {"name": "both", "projected": {"sources": sources}}, tmp_path, tmp_path.joinpath, read
    )
    texts = {name: (path / name).read_text() for name in ("a", "b", "below/token")}
    assert texts == {"a": "one", "b": "two", "below/token": "hidden"}
    assert not writable


def test_a_bucket_is_mounted_as_its_options_say(tmp_path: Path) -> None:
    attributes = {"bucketName": "mine", "mountOptions": "implicit-dirs,only-dir=models"}
    csi = {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}
    bucket = lay_out({"name": "bucket", "csi": csi}, tmp_path, tmp_path.joinpath, read)
    assert bucket == (tmp_path / "mine/models", True)
    assert bucket[0].is_dir()
    read_only = lay_out(
        {"name": "bucket", "csi": {**csi, "readOnly": True}}, tmp_path, tmp_path.joinpath, read
    )
    assert not read_only[1]


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"hostPath": {"path": "/"}}, "volumes of the kind hostPath"),
        (
            {"configMap": {"name": "code", "items": [{"key": "c", "path": "c"}]}},
            "configMap code has no key c",
        ),
    ],
)
def test_a_volume_that_cannot_be_laid_out_says_why(
    volume: Mapping[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RehearsalError, match=message):
        lay_out({"name": "volume", **volume}, tmp_path, tmp_path.joinpath, read)
