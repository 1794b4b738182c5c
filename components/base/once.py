"""The base class of dynamic resources that run something to its end, such as a build or a job."""

import sys
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

from pulumi import dynamic

from cloud.credentials import CredentialSettings


class OnceError(Exception):
    """The run failed. The message has the reason, the place to look and the next step."""


class OnceProvider(dynamic.ResourceProvider):
    """Runs something when the resource is created, never in a preview. A failed run is not in the state.

    Deleting the resource deletes nothing: pods may still run an old image, and the repository deletes its
    images with itself.

    The state holds the provider's class by name, such as `components.cloud_build.CloudBuildProvider`. So an
    edit of the code does not change the resource, and a stack from before the edit can still be destroyed.

    Attributes:
        servers: By API, the configuration key that holds the address of another server. The gcp provider has
            the same keys.
        identity: Inputs that decide which run it is: another value means another run. All other inputs only
            say how the run is done.
    """

    # The class's name is not a secret.
    serialize_as_secret_always = False
    servers: ClassVar[Mapping[str, str]]
    identity: ClassVar[tuple[str, ...]]

    def configure(self, req: dynamic.ConfigureRequest) -> None:
        """Reads the addresses of the APIs and the settings that choose the credentials."""
        self._endpoints = {api: req.config.get(key) for api, key in self.servers.items()}
        self._credentials = CredentialSettings.read(req.config.get)
        traceback.format_exc = _message_or_traceback  # ty: ignore[invalid-assignment]

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        """Replaces the resource if its identity changed, and otherwise reports no difference.

        Other inputs only count for the next run. In the preview of an update the result would be unknown, and
        every resource that uses it would be replaced.
        """
        changed = [key for key in self.identity if _olds.get(key) != _news.get(key)]
        return dynamic.DiffResult(changes=bool(changed), replaces=changed)


_format_exc = traceback.format_exc


def _message_or_traceback(limit: int | None = None, chain: bool = True) -> str:
    """The text that the SDK's server of dynamic providers reports to the engine for the current error.

    The server reports the traceback of every error. An `OnceError` is complete without one.
    """
    error = sys.exc_info()[1]
    return visible_text(str(error)) if isinstance(error, OnceError) else _format_exc(limit, chain)


def visible_text(text: str) -> str:
    """The text, with codes in place of control characters: a part of it may come from a bucket."""
    return "".join(
        character if character.isprintable() or character in "\n\t" else ascii(character)[1:-1]
        for character in text
    )
