"""The environment variables of a container."""

from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.pods.volumes import NotThere, Read, data, field


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
            for name, text in found.items():
                value = value.replace(f"$({name})", text)
            found[each["name"]] = value
    return found


def _value(pod: Object, variable: Object, read: Read) -> str | None:
    if "valueFrom" not in variable:
        return variable.get("value") or ""
    ((kind, said),) = variable["valueFrom"].items()
    if kind == "fieldRef":
        return field(pod, said["fieldPath"])
    if kind != "secretKeyRef":
        raise RehearsalError(f"pods are not run with environment variables of the kind {kind}")
    texts = data(read, "secret", said)
    if said["key"] not in texts and not said.get("optional"):
        raise NotThere(f"couldn't find key {said['key']} in secret {said['name']}")
    return texts[said["key"]].decode() if said["key"] in texts else None
