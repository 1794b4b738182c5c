"""What dynamic resources have in common that stand for something that ran to its end."""

import sys
import traceback
from collections.abc import Mapping
from typing import Any, ClassVar

from pulumi import dynamic

from cloud.credentials import CredentialSettings


class OnceError(Exception):
    """It did not come to a good end; the text says why, where to look and what to do."""


class OnceProvider(dynamic.ResourceProvider):
    """Runs something when the resource is created, never in a preview; what failed is not in the state.

    Its deletion deletes nothing: pods may still run an old image, and a repository's end removes it.

    The state holds a class by its name, such as `components.cloud_build.CloudBuildProvider`: an edit of the
    code is no change of the resource, and a stack from before the edit can still be destroyed.

    Attributes:
        servers: By API the stack configuration with the address of another server, named as the gcp provider
            itself names it.
        identity: Inputs of which another value means another run; the others only say how it is done.
    """

    # There is nothing secret in a name.
    serialize_as_secret_always = False
    servers: ClassVar[Mapping[str, str]]
    identity: ClassVar[tuple[str, ...]]

    def configure(self, req: dynamic.ConfigureRequest) -> None:
        """Takes the addresses of the APIs, and what says whose credentials are looked up when one is used."""
        self._endpoints = {api: req.config.get(key) for api, key in self.servers.items()}
        self._credentials = CredentialSettings.read(req.config.get)
        traceback.format_exc = _message_or_traceback  # ty: ignore[invalid-assignment]

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        """Another identity replaces. Another way to the same result is no difference, only noted for the next
        run: in the preview of an update the result would be unknown, and so be replaced what uses it.
        """
        changed = [key for key in self.identity if _olds.get(key) != _news.get(key)]
        return dynamic.DiffResult(changes=bool(changed), replaces=changed)


_format_exc = traceback.format_exc


def _message_or_traceback(limit: int | None = None, chain: bool = True) -> str:
    """What the SDK's server of dynamic providers reports to the engine: it takes every error's traceback."""
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, OnceError) else _format_exc(limit, chain)
