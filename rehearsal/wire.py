"""Property maps as they travel between the engine and a provider: protobuf Structs."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.struct_pb2 import NULL_VALUE, Struct, Value


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
