"""Reads access policies."""

from collections.abc import Collection

from operations.errors import CallError
from operations.google.clients import Clients

Members = Collection[tuple[str, str]]


def members_of(clients: Clients, api: str, method: str, **arguments: str) -> Members | None:
    """Pairs of role and member of a policy. None if it is not open to the credentials."""
    try:
        policy = clients.call(api, method, **arguments)
    except CallError as error:
        if not error.forbidden or error.disabled:
            raise
        return None
    return {
        (binding.get("role", ""), member)
        for binding in policy.get("bindings", ())
        # A condition may hold at another time or place.
        if not binding.get("condition")
        for member in binding.get("members", ())
    }
