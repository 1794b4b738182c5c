"""The Hugging Face Hub, asked through its own library."""

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx2
import huggingface_hub
import yaml
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils._http import default_client_factory
from tenacity import retry_if_exception

from engine import lookup
from engine.errors import EngineError
from engine.project import ROOT, project_name
from operations.clients import Clients
from operations.errors import OperationError
from operations.retries import retrying

T = TypeVar("T")

_TIMEOUT_S: Final = 20.0
_ATTEMPTS: Final = 3
# The Hub has too much to do, or is down for a moment.
_AGAIN: Final = (429, 500, 502, 503, 504)


class HubError(OperationError):
    """The Hub gave no answer."""


class Hub:
    """The Hub as the owner of a token sees it.

    Args:
        clients: Of Google's APIs: whoever answers in Google's place answers here too.
        token: A Hugging Face token; without one the Hub answers as it does to anybody.
    """

    def __init__(self, clients: Clients, token: str | None) -> None:
        huggingface_hub.set_client_factory(_client)
        endpoint = f"{clients.endpoint}/huggingface" if clients.endpoint else None
        self._api = HfApi(endpoint=endpoint, token=token or False)

    def owner(self) -> str:
        """Name of the token's account.

        Raises:
            HfHubHTTPError: With status 401 for a token that is none.
            HubError: Without an answer.
        """
        return str(self._ask(self._api.whoami).get("name", ""))

    def may_read(self, name: str, kind: str) -> None:
        """Asks whether the token's account may download a repository.

        Args:
            name: Such as `google/gemma-3-4b-it`.
            kind: `model` or `dataset`.

        Raises:
            GatedRepoError: When its licence has not been accepted.
            RepositoryNotFoundError: When it does not exist, or not for this account.
            HfHubHTTPError: When the Hub rejects it for any other reason.
            HubError: Without an answer.
        """
        self._ask(lambda: self._api.auth_check(name, repo_type=kind))

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return retrying(retry_if_exception(_may_pass), _ATTEMPTS)(question)
        except HfHubHTTPError:
            raise
        except (httpx2.HTTPError, ValueError) as error:
            raise HubError(f"the Hugging Face Hub gave no usable answer: {error}") from None


def read_token(stack: str) -> str:
    """The stack's Hugging Face token: `HF_TOKEN`, else what `pulumi config set --secret hfToken` stored.

    Raises:
        OperationError: When there is none, or it cannot be decrypted here; says which.
    """
    given = os.environ.get("HF_TOKEN")
    if given:
        return given
    file = ROOT / f"Pulumi.{stack}.yaml"
    stored: dict[str, Any] = (yaml.safe_load(file.read_text()) or {}).get("config") or {}
    if f"{project_name()}:hfToken" not in stored:
        raise OperationError("the stack has no hfToken")
    try:
        engine = lookup.find(lambda _text: None)
        return engine.output(["config", "get", "hfToken", "--stack", stack], ROOT).strip()
    except EngineError:
        # The engine's message may hold more than anybody should read.
        raise OperationError("the stack's hfToken could not be decrypted here") from None


def _may_pass(error: BaseException) -> bool:
    """Whether another attempt may get an answer."""
    if isinstance(error, HfHubHTTPError):
        return error.response.status_code in _AGAIN
    return isinstance(error, httpx2.HTTPError | ValueError)


def _client() -> httpx2.Client:
    """The library's own client, which would wait for ever."""
    client = default_client_factory()
    client.timeout = httpx2.Timeout(_TIMEOUT_S)
    return client
