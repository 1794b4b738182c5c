"""What the containers of a pod refer to: environment variables, and volumes as folders of this machine."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.rules.pods import GCS_FUSE

# The texts of a ConfigMap or Secret by its kind and how a pod refers to it; raises RehearsalError without it.
Read = Callable[[str, Object], Mapping[str, str]]


def environment(pod: Object, container: Object, read: Read) -> dict[str, str]:
    """What `env` of a container says.

    Raises:
        RehearsalError: When a Secret or a key of one is not there, or a value comes from something else.
    """
    found: dict[str, str] = {}
    for each in container.get("env") or ():
        if (value := _value(pod, each, read)) is not None:
            found[each["name"]] = expanded(value, found)
    return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` in a value, a command or an argument is a variable of the container."""
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


def lay_out(volume: Object, folder: Path, bucket: Callable[[str], Path], read: Read) -> tuple[Path, bool]:
    """Lays out a volume of a pod: its folder, and whether the pod may write in it.

    Args:
        volume: The volume.
        folder: Where it is made.
        bucket: The folder of a bucket, by its name.
        read: Reads ConfigMaps and Secrets of the pod's namespace.

    Raises:
        RehearsalError: When one of them or a key of it is not there, or the volume is of another kind.
    """
    path = folder / volume["name"]
    if "emptyDir" in volume:
        path.mkdir(parents=True, exist_ok=True)
        return path, True
    if volume.get("csi", {}).get("driver") == GCS_FUSE:
        said = volume["csi"]["volumeAttributes"]
        options = dict(each.partition("=")[::2] for each in said.get("mountOptions", "").split(","))
        path = bucket(said["bucketName"]) / options.get("only-dir", "")
        path.mkdir(parents=True, exist_ok=True)
        return path, not volume["csi"].get("readOnly")
    # A single source is a projection of itself.
    sources = volume["projected"]["sources"] if "projected" in volume else [volume]
    _link(path, {name: text for source in sources for name, text in _files(source, read)})
    return path, False


def _value(pod: Object, variable: Object, read: Read) -> str | None:
    if "valueFrom" not in variable:
        return variable.get("value") or ""
    ((kind, said),) = variable["valueFrom"].items()
    if kind == "fieldRef":
        return _field(pod, said["fieldPath"])
    if kind != "secretKeyRef":
        raise RehearsalError(f"pods are not run with environment variables of the kind {kind}")
    texts = read("Secret", said)
    if said["key"] in texts or said.get("optional"):
        return texts.get(said["key"])
    raise RehearsalError(f"couldn't find key {said['key']} in secret {said['name']}")


def _field(pod: Object, path: str) -> str:
    """What a `fieldRef` means: `metadata.labels['app']`, `status.podIP`."""
    outer, _, key = path.partition("[")
    value: Any = pod
    for name in outer.split("."):
        value = (value or {}).get(name)
    return str((value or {}).get(key.strip("[]'\"")) if key else value or "")


def _files(source: Object, read: Read) -> Iterator[tuple[str, str]]:
    (kind, said), *others = ((key, said) for key, said in source.items() if key != "name")
    if others or kind not in ("configMap", "secret"):
        raise RehearsalError(f"pods are not run with volumes of the kind {kind}")
    name = said.get("name") or said["secretName"]
    texts = read("ConfigMap" if kind == "configMap" else "Secret", {**said, "name": name})
    for item in said.get("items") or [{"key": key, "path": key} for key in texts]:
        if item["key"] not in texts:
            raise RehearsalError(f"{kind} {name} has no key {item['key']}")
        yield item["path"], texts[item["key"]]


def _link(folder: Path, files: Mapping[str, str]) -> None:
    """As a kubelet does, which replaces them at once: entries are links into a folder of this version."""
    version = folder / "..version"
    version.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_text(text)
    tops = {name.split("/")[0] for name in files}
    for name, target in {"..data": "..version", **{top: f"..data/{top}" for top in tops}}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
