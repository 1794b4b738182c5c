"""The environment variables of a container."""

from typing import Final

from cloud.quantity import quantity
from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.pods.volumes import NotThere, Read, data, field

_SOURCES: Final = {"configMapRef": "configMap", "secretRef": "secret"}
_KEYS: Final = {"configMapKeyRef": "configMap", "secretKeyRef": "secret"}


def environment(pod: Object, container: Object, read: Read) -> dict[str, str]:
    """What `env` and `envFrom` of a container say.

    Raises:
        NotThere: When a ConfigMap, a Secret or a key of one is not there.
        RehearsalError: When a value comes from something that the rehearsal does not know.
    """
    found: dict[str, str] = {}
    for each in container.get("envFrom") or ():
        ((source, said),) = ((key, value) for key, value in each.items() if key != "prefix")
        texts = data(read, _SOURCES[source], said).items()
        found |= {each.get("prefix", "") + key: text.decode() for key, text in texts}
    for each in container.get("env") or ():
        value = _value(pod, container, each, read)
        if value is not None:
            for name, text in found.items():
                value = value.replace(f"$({name})", text)
            found[each["name"]] = value
    return found


def _value(pod: Object, container: Object, each: Object, read: Read) -> str | None:
    if "valueFrom" not in each:
        return each.get("value") or ""
    ((kind, said),) = each["valueFrom"].items()
    if kind == "fieldRef":
        return field(pod, said["fieldPath"])
    if kind == "resourceFieldRef":
        amounts, _, resource = said["resource"].partition(".")
        amount = quantity(container.get("resources", {}).get(amounts, {}).get(resource)) or 0
        return str(int(-(-amount // (quantity(said.get("divisor") or "1") or 1))))
    if kind not in _KEYS:
        raise RehearsalError(f"pods are not run with environment variables of the kind {kind}")
    texts = data(read, _KEYS[kind], said)
    if said["key"] not in texts and not said.get("optional"):
        raise NotThere(f"couldn't find key {said['key']} in {_KEYS[kind]} {said['name']}")
    return texts[said["key"]].decode() if said["key"] in texts else None
