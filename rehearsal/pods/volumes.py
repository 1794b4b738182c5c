"""Volumes of a pod as folders of this machine."""

import base64
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError

# What a volume's files are read from, by kind and name; None while it is not there.
Read = Callable[[str, str], Object | None]
_FUSE: Final = "gcsfuse.csi.storage.gke.io"


class NotThere(RehearsalError):
    """Something that a pod refers to does not exist yet; the kubelet tries again."""


def lay_out(volume: Object, folder: Path, bucket: Callable[[str], Path], read: Read) -> tuple[Path, bool]:
    """Lays out a volume of a pod: its folder, and whether the pod may write in it.

    Args:
        volume: The volume.
        folder: Where it is made.
        bucket: The folder of a bucket, by its name.
        read: Reads ConfigMaps and Secrets of the pod's namespace.

    Raises:
        NotThere: When a ConfigMap or Secret is not there.
        RehearsalError: When the volume is of a kind that the rehearsal does not know.
    """
    path = folder / volume["name"]
    if "emptyDir" in volume:
        path.mkdir(parents=True, exist_ok=True)
        return path, True
    if volume.get("csi", {}).get("driver") == _FUSE:
        said = volume["csi"]["volumeAttributes"]
        options = dict(each.partition("=")[::2] for each in said.get("mountOptions", "").split(","))
        path = bucket(said["bucketName"]) / options.get("only-dir", "")
        path.mkdir(parents=True, exist_ok=True)
        return path, not volume["csi"].get("readOnly")
    # A single source is a projection of itself.
    sources = volume["projected"]["sources"] if "projected" in volume else [_source(volume)]
    _link(path, {name: text for source in sources for name, text in _files(source, read)})
    return path, False


def data(read: Read, kind: str, said: Mapping[str, Any]) -> dict[str, bytes]:
    """What a ConfigMap or Secret holds that a pod refers to; empty when it is optional and missing.

    Raises:
        NotThere: When it is missing.
    """
    found = read("ConfigMap" if kind == "configMap" else "Secret", said["name"])
    if found is None and not said.get("optional"):
        raise NotThere(f'{kind.lower()} "{said["name"]}" not found')
    texts = ((found or {}).get("data") or {}).items()
    return {key: text.encode() if kind == "configMap" else base64.b64decode(text) for key, text in texts}


def _source(volume: Object) -> Object:
    if "secret" not in volume:
        return {key: said for key, said in volume.items() if key != "name"}
    return {"secret": {**volume["secret"], "name": volume["secret"]["secretName"]}}


def _files(source: Object, read: Read) -> Iterator[tuple[str, bytes]]:
    ((kind, said),) = source.items()
    if kind not in ("configMap", "secret"):
        raise RehearsalError(f"pods are not run with volumes of the kind {kind}")
    found = data(read, kind, said)
    for item in said.get("items") or [{"key": key, "path": key} for key in found]:
        if item["key"] not in found:
            raise NotThere(f"{kind} {said['name']} has no key {item['key']}")
        yield item["path"], found[item["key"]]


def _link(folder: Path, files: Mapping[str, bytes]) -> None:
    """As a kubelet does, which replaces them at once: entries are links into a folder of this version."""
    version = folder / "..version"
    version.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_bytes(text)
    tops = {name.split("/")[0] for name in files}
    for name, target in {"..data": "..version", **{top: f"..data/{top}" for top in tops}}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
