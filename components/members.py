"""IAM members as a setting names them."""

import json
import re
from typing import Final

EVERYBODY: Final = "allUsers"
# https://docs.cloud.google.com/iam/docs/principal-identifiers
_MEMBER: Final = re.compile(
    r"(user|group|serviceAccount):[^@\s:]+@[^@\s:]+"
    r"|domain:[^@\s:]+\.[^@\s:]+"
    r"|principal(Set)?://iam\.googleapis\.com/\S+"
)


def parse_members(text: str) -> tuple[str, ...]:
    """Reads one member, or a JSON list of members as `pulumi config set --path` stores it.

    Raises:
        ValueError: When one of them is no member, or is the whole world in other words than `allUsers`.
    """
    members = _list(text) if text.startswith("[") else [text]
    return tuple(dict.fromkeys(_member(member) for member in members))


def _member(text: object) -> str:
    if text == "allAuthenticatedUsers":
        raise ValueError(
            "allAuthenticatedUsers is everybody with a Google account; write allUsers if you mean the "
            "whole world, or name users and groups"
        )
    if not isinstance(text, str) or not (text == EVERYBODY or _MEMBER.fullmatch(text)):
        raise ValueError(
            f"{text!r} is not an IAM member such as user:NAME@EXAMPLE.COM, group:NAME@EXAMPLE.COM or "
            "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"
        )
    return text


def _list(text: str) -> list[object]:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither an IAM member nor a list of IAM members") from None
