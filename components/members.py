"""IAM members as a setting names them."""

import re
from typing import Final

EVERYBODY: Final = "allUsers"
# https://docs.cloud.google.com/iam/docs/principal-identifiers
_MEMBER: Final = re.compile(
    r"(user|group|serviceAccount):[^@\s:]+@[^@\s:]+"
    r"|domain:[^@\s:]+\.[^@\s:]+"
    r"|principal(Set)?://iam\.googleapis\.com/\S+"
)


def check_member(text: str) -> str:
    """The text, which is an IAM member.

    Raises:
        ValueError: When it is none, or is the whole world in other words than `allUsers`.
    """
    if text == "allAuthenticatedUsers":
        raise ValueError(
            "allAuthenticatedUsers is everybody with a Google account; write allUsers if you mean the "
            "whole world, or name users and groups"
        )
    if not (text == EVERYBODY or _MEMBER.fullmatch(text)):
        raise ValueError(
            f"{text!r} is not an IAM member such as user:NAME@EXAMPLE.COM, group:NAME@EXAMPLE.COM or "
            "serviceAccount:NAME@PROJECT.iam.gserviceaccount.com"
        )
    return text
