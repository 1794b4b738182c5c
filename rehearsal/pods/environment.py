"""The environment variables of a container."""

from collections.abc import Mapping
from typing import Any

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.pods.volumes import NotThere, Read, data


def environment(pod: Object, container: Object, read: Read) -> dict[str, str]:
    """What `env` of a container says.

    Raises:
        NotThere: When a Secret or a key of one is not there.
        RehearsalError: When a value comes from something that the rehearsal does not know.
    """
    found: dict[str, str] = {}
    for each in container.get("env") or ():
        value = _value(pod, each, read)
        if value is not None:
            found[each["name"]] = expanded(value, found)
    return found


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` in a value, a command or an argument is a variable of the container."""
    for name, value in variables.items():
        text = text.replace(f"$({name})", value)
    return text


def _value(pod: Object, variable: Object, read: Read) -> str | None:
    if "valueFrom" not in variable:
        return variable.get("value") or ""
    ((kind, said),) = variable["valueFrom"].items()
    if kind == "fieldRef":
        return _field(pod, said["fieldPath"])
    if kind != "secretKeyRef":
        raise RehearsalError(f"pods are not run with environment variables of the kind {kind}")
    texts = data(read, "secret", said)
    if said["key"] in texts:
        return texts[said["key"]].decode()
    if said.get("optional"):
        return None
    raise NotThere(f"couldn't find key {said['key']} in secret {said['name']}")


def _field(pod: Object, path: str) -> str:
    """What a `fieldRef` means: `metadata.labels['app']`, `status.podIP`."""
    outer, _, key = path.partition("[")
    value: Any = pod
    for name in outer.split("."):
        value = (value or {}).get(name)
    return str((value or {}).get(key.strip("[]'\"")) if key else value or "")
