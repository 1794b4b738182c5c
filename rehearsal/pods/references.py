"""Resolves the references of a pod's containers: environment variables, and volumes as folders."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.rules.pods import GCS_FUSE

# Returns the texts of a ConfigMap or Secret by its kind and a pod's reference. Raises RehearsalError if it is
# missing.
Read = Callable[[str, Object], Mapping[str, str]]


def environment(pod: Object, container: Object, read: Read) -> dict[str, str]:
    """The environment variables in `env` of a container.

    Raises:
        RehearsalError: If a Secret or one of its keys is missing, or a value has another kind of source.
    """
    variables: dict[str, str] = {}
    for variable in container.get("env") or ():
        value = _value(pod, variable, read)
        if value is not None:
            variables[variable["name"]] = expanded(value, variables)
    return variables


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A value, command or argument in which `$(NAME)` is replaced by the container's variable."""
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


def lay_out(volume: Object, folder: Path, bucket: Callable[[str], Path], read: Read) -> tuple[Path, bool]:
    """Prepares a volume of a pod.

    Args:
        volume: The volume.
        folder: The parent of its folder.
        bucket: Returns the folder of a bucket by its name.
        read: Reads ConfigMaps and Secrets of the pod's namespace.

    Returns:
        The volume's folder, and whether the pod may write to it.

    Raises:
        RehearsalError: If a ConfigMap, a Secret or a key is missing, or the volume has another kind.
    """
    path = folder / volume["name"]
    if "emptyDir" in volume:
        path.mkdir(parents=True, exist_ok=True)
        return path, True
    if volume.get("csi", {}).get("driver") == GCS_FUSE:
        attributes = volume["csi"]["volumeAttributes"]
        mount_options = attributes.get("mountOptions", "").split(",")
        options = dict(option.partition("=")[::2] for option in mount_options)
        path = bucket(attributes["bucketName"]) / options.get("only-dir", "")
        path.mkdir(parents=True, exist_ok=True)
        return path, not volume["csi"].get("readOnly")
    # A volume with one source is like a projection of that source.
    sources = volume["projected"]["sources"] if "projected" in volume else [volume]
    _link(path, {name: text for source in sources for name, text in _files(source, read)})
    return path, False


def _value(pod: Object, variable: Object, read: Read) -> str | None:
    if "valueFrom" not in variable:
        return variable.get("value") or ""
    ((kind, reference),) = variable["valueFrom"].items()
    if kind == "fieldRef":
        return _field(pod, reference["fieldPath"])
    if kind != "secretKeyRef":
        raise RehearsalError(f"pods are not run with environment variables of the kind {kind}")
    texts = read("Secret", reference)
    if reference["key"] in texts or reference.get("optional"):
        return texts.get(reference["key"])
    raise RehearsalError(f"couldn't find key {reference['key']} in secret {reference['name']}")


def _field(pod: Object, path: str) -> str:
    """The value of a `fieldRef`, such as `metadata.labels['app']` or `status.podIP`."""
    outer, _, key = path.partition("[")
    value: Any = pod
    for name in outer.split("."):
        value = (value or {}).get(name)
    return str((value or {}).get(key.strip("[]'\"")) if key else value or "")


def _files(source: Object, read: Read) -> Iterator[tuple[str, str]]:
    (kind, reference), *others = [(key, value) for key, value in source.items() if key != "name"]
    if others or kind not in ("configMap", "secret"):
        raise RehearsalError(f"pods are not run with volumes of the kind {kind}")
    name = reference.get("name") or reference["secretName"]
    texts = read("ConfigMap" if kind == "configMap" else "Secret", {**reference, "name": name})
    for item in reference.get("items") or [{"key": key, "path": key} for key in texts]:
        if item["key"] not in texts:
            raise RehearsalError(f"{kind} {name} has no key {item['key']}")
        yield item["path"], texts[item["key"]]


def _link(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files as a kubelet does: they are links into a folder, so that all change together."""
    version = folder / "..version"
    version.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (version / name).parent.mkdir(parents=True, exist_ok=True)
        (version / name).write_text(text)
    tops = {name.split("/")[0] for name in files}
    for name, target in {"..data": "..version", **{top: f"..data/{top}" for top in tops}}.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
