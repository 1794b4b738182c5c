"""Where the pictures of a row are: bytes, or the path of a file. Nothing is decoded here."""

import base64
import binascii
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from conversations.columns import RowError

# Type of a part of a message that is a picture's place.
IMAGE = "image"
# Keys of an object that hold a picture, or an object with one.
_KEYS = (
    "bytes",
    "image_url",
    "image",
    "url",
    "path",
    "file_name",
    "source",
    "inline_data",
    "inlineData",
    "data",
)
_DATA_URI = re.compile(r"data:[^,;]*(;[^,;]*)*;base64,", re.IGNORECASE)
# How the base64 of JPEG, PNG, GIF, WebP and BMP begins. A path is never so long.
_BASE64 = re.compile(r"(/9j/|iVBOR|R0lGOD|UklGR|Qk[0-3])[A-Za-z0-9+/\s]{200,}={0,2}\s*")
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+)://", re.IGNORECASE)
MISSING = "a picture is missing or damaged"


def pictures_in(value: Any) -> list[Any]:
    """The pictures of a column's value: none, one, or a list. Raises RowError for what is none."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with suppress(ValueError, RecursionError):  # a path may begin so
            value = json.loads(value)
    if value is None or value == "":
        return []
    values = value if isinstance(value, list | tuple) else [value]
    pictures = [picture_of(picture) for picture in values]
    if None in pictures:
        raise RowError(MISSING, "one of the pictures is empty")
    return pictures


def picture_of(value: Any) -> Any:
    """Bytes, a path, or a decoded picture as it is. None for an empty place.

    Raises RowError for a picture that a training cannot read.
    """
    if isinstance(value, Mapping):
        inner = next((value[key] for key in _KEYS if value.get(key) is not None), None)
        return None if inner is None else picture_of(inner)
    if isinstance(value, str):
        return _of_text(value)
    if value is None or isinstance(value, bytes) or hasattr(value, "convert"):
        return value
    raise RowError(MISSING, f"a picture is {value!r}: take a path, its bytes, or a data URI"[:200])


def _of_text(value: str) -> Any:
    """The bytes of a data URI or of base64 alone, or a path."""
    uri = _DATA_URI.match(value)
    if uri or _BASE64.fullmatch(value):
        return _decoded(value[uri.end() :] if uri else value)
    scheme = _SCHEME.match(value)
    if scheme and scheme["scheme"].lower() == "file":
        return value[scheme.end() :]
    if scheme:
        raise RowError(
            "a picture is at a URL",
            f"a picture is {value[:100]}, and a training downloads none: put it beside the rows and name its "
            "path",
        )
    return value or None


def is_below(picture: Any) -> bool:
    """Whether a picture is the path of a file below the folder of its rows."""
    return isinstance(picture, str) and not picture.startswith("/") and ".." not in picture.split("/")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except binascii.Error as error:
        raise RowError(MISSING, f"a picture is no base64: {error}") from None
