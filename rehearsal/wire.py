"""Property values as they travel between the engine and a provider.

The protocol carries a property map as a protobuf Struct; a value that is not known yet is one of a
few agreed texts. Sources: `pulumi.runtime.rpc` and the engine's `resource/plugin/rpc.go`.
"""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value
from pulumi.runtime import rpc

UNKNOWN: Final = rpc.UNKNOWN
# What stands for a secret wherever values are shown or written down.
SECRET: Final = "[secret]"

# What the engine writes for an unknown text, truth value, number, array, asset, archive, object.
_UNKNOWNS: Final = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

# The key that marks a wrapped value: a secret, an output, an asset or an archive.
SIGNATURE: Final = rpc._special_sig_key
_WRAPPED: Final = (rpc._special_secret_sig, rpc._special_output_value_sig)


def is_unknown(value: object) -> bool:
    """Whether a value is still to be computed."""
    return isinstance(value, str) and value in _UNKNOWNS


def has_unknown(value: object) -> bool:
    """Whether a value is, or contains, something still to be computed."""
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return is_unknown(value)


def without_unknowns(value: Any) -> Any:
    """A copy that leaves out every entry still to be computed, for checks of the rest."""
    if isinstance(value, Mapping):
        return {key: without_unknowns(item) for key, item in value.items() if not is_unknown(item)}
    if isinstance(value, list):
        return [without_unknowns(item) for item in value if not is_unknown(item)]
    return value


def scrubbed(value: Any) -> Any:
    """A copy in which every secret is the text `SECRET`."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == rpc._special_secret_sig:
            return SECRET
        if value.get(SIGNATURE) in _WRAPPED:
            return SECRET if value.get("secret") else scrubbed(value.get("value", UNKNOWN))
        return {key: scrubbed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    return value


def from_struct(struct: Struct) -> dict[str, Any]:
    """A property map as plain Python values; whole numbers become int."""
    return {key: _from_value(value) for key, value in struct.fields.items()}


def to_struct(properties: Mapping[str, Any]) -> Struct:
    """Plain Python values as a property map."""
    struct = Struct()
    for key, value in properties.items():
        _set_value(struct.fields[key], value)
    return struct


def _from_value(value: Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [_from_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = float(value.number_value)
        return int(number) if number.is_integer() else number
    if kind == "string_value":
        return value.string_value
    return value.bool_value if kind == "bool_value" else None


def _set_value(target: Value, value: Any) -> None:
    if isinstance(value, Mapping):
        target.struct_value.SetInParent()
        for key, item in value.items():
            _set_value(target.struct_value.fields[key], item)
    elif isinstance(value, list | tuple):
        target.list_value.SetInParent()
        for item in value:
            _set_value(target.list_value.values.add(), item)
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif value is None:
        target.null_value = NULL_VALUE
    else:
        target.string_value = value
