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


class Volumes:
    """The volumes of one pod.

    Args:
        pod: The pod.
        folder: Where they are made.
        bucket: The folder of a bucket, by its name.
        read: Reads ConfigMaps and Secrets of its namespace.
        token: Makes a token of its service account.
    """

    def __init__(
        self, pod: Object, folder: Path, bucket: Callable[[str], Path], read: Read, token: Callable[[], str]
    ) -> None:
        self._pod, self._folder, self._bucket, self._read, self._token = pod, folder, bucket, read, token

    def make(self) -> dict[str, tuple[Path, bool]]:
        """The volumes by name: the folder of each, and whether pods may write in it.

        Raises:
            NotThere: When a ConfigMap or Secret is not there.
            RehearsalError: When a volume is of a kind that the rehearsal does not know.
        """
        return {volume["name"]: self._one(volume) for volume in self._pod["spec"].get("volumes") or ()}

    def _one(self, volume: Object) -> tuple[Path, bool]:
        path = self._folder / volume["name"]
        if "emptyDir" in volume:
            path.mkdir(parents=True, exist_ok=True)
            return path, True
        if volume.get("csi", {}).get("driver") == _FUSE:
            said = volume["csi"]["volumeAttributes"]
            options = dict(each.partition("=")[::2] for each in said.get("mountOptions", "").split(","))
            folder = self._bucket(said["bucketName"]) / options.get("only-dir", "")
            folder.mkdir(parents=True, exist_ok=True)
            return folder, not volume["csi"].get("readOnly")
        # A single source is a projection of itself.
        sources = volume["projected"]["sources"] if "projected" in volume else [_source(volume)]
        _lay_out(path, {name: text for source in sources for name, text in self._files(source)})
        return path, False

    def _files(self, source: Object) -> Iterator[tuple[str, bytes]]:
        ((kind, said),) = source.items()
        if kind == "serviceAccountToken":
            yield said["path"], self._token().encode()
        elif kind == "downwardAPI":
            for item in said["items"]:
                yield item["path"], field(self._pod, item["fieldRef"]["fieldPath"]).encode()
        elif kind in ("configMap", "secret"):
            found = data(self._read, kind, said)
            items = said.get("items") or [{"key": key, "path": key} for key in found]
            for item in items:
                if item["key"] not in found:
                    raise NotThere(f"{kind} {said['name']} has no key {item['key']}")
                yield item["path"], found[item["key"]]
        else:
            raise RehearsalError(f"pods are not run with volumes of the kind {kind}")


def data(read: Read, kind: str, said: Mapping[str, Any]) -> dict[str, bytes]:
    """What a ConfigMap or Secret holds that a pod refers to; empty when it is optional and missing.

    Raises:
        NotThere: When it is missing.
    """
    found = read("ConfigMap" if kind == "configMap" else "Secret", said["name"])
    if found is None and not said.get("optional"):
        raise NotThere(f'{kind.lower()} "{said["name"]}" not found')
    found = found or {}
    texts = (found.get("data") or {}).items()
    if kind == "secret":
        return {key: base64.b64decode(text) for key, text in texts}
    packed = (found.get("binaryData") or {}).items()
    return {key: text.encode() for key, text in texts} | {key: base64.b64decode(text) for key, text in packed}


def field(pod: Object, path: str) -> str:
    """What a `fieldRef` means: `metadata.labels['app']`, `status.podIP`."""
    outer, _, key = path.partition("[")
    value: Any = pod
    for name in outer.split("."):
        value = (value or {}).get(name)
    return str((value or {}).get(key.strip("[]'\"")) if key else value or "")


def _source(volume: Object) -> Object:
    kind = next(key for key in volume if key != "name")
    said = volume[kind]
    return {kind: {**said, "name": said["secretName"]} if kind == "secret" else said}


def _lay_out(folder: Path, files: Mapping[str, bytes]) -> None:
    """As a kubelet does, which replaces them at once: entries are links into a folder of this version."""
    version = folder / "..version"
    for name, text in files.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_bytes(text)
    version.mkdir(parents=True, exist_ok=True)
    links = {"..data": "..version", **{name.split("/")[0]: f"..data/{name.split('/')[0]}" for name in files}}
    for name, target in links.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
