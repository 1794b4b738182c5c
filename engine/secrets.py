"""Replaces secrets in what the engine shows. The engine marks them by a signature."""

from collections.abc import Mapping
from typing import Any, Final

from pulumi.runtime import rpc

# The text that replaces a secret wherever values are shown or written.
SECRET: Final = "[secret]"

# The key of a value that the engine wraps: a secret, an output, an asset or an archive.
SIGNATURE: Final = rpc._special_sig_key
_WRAPPED: Final = (rpc._special_secret_sig, rpc._special_output_value_sig)


def scrubbed(value: Any) -> Any:
    """A copy of a value in which every secret is the text `SECRET`."""
    if isinstance(value, Mapping):
        if value.get(SIGNATURE) == rpc._special_secret_sig:
            return SECRET
        if value.get(SIGNATURE) in _WRAPPED:
            return SECRET if value.get("secret") else scrubbed(value.get("value", rpc.UNKNOWN))
        return {key: scrubbed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    return value
