"""Calls Google's APIs by the names of API and method. No other module of this package calls them."""

import http.client
import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import Request
from googleapiclient.errors import HttpError
from googleapiclient.http import HttpRequest

from cloud.client import CALL_ERRORS, Answer, TooLargeError, client, is_on_the_way
from cloud.credentials import NO_SETTINGS, CredentialSettings, find_credentials
from cloud.discovery import discovery
from cloud.identity_token import identity_token
from operations.errors import ODD_ANSWER, CallError, OperationError

# For one answer. Lists come in pages.
_TIMEOUT_S: Final = 20.0
# After 429, 5xx and a lost connection, with growing pauses of at most 1, 3 and 7 seconds.
_RETRIES: Final = 3
# A list with more pages than this is one that never ends: a page has hundreds of entries.
_MOST_PAGES: Final = 1000


class Clients:
    """Calls of Google's APIs.

    Args:
        project: Project whose quota the calls of a person's credentials count against.
        endpoint: A server that answers in Google's place under `ENDPOINT/API/`. None means Google.
        settings: The stack's settings that choose credentials.
        timeout_s: Seconds until a call without an answer fails.

    Attributes:
        endpoint: The argument, without a slash at its end.
        unreached: Places that lists left out because they did not answer. A caller that reads it empties it
            first.

    Raises:
        OperationError: Without usable credentials.
    """

    def __init__(
        self,
        project: str,
        endpoint: str | None = None,
        *,
        settings: CredentialSettings = NO_SETTINGS,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self.endpoint = endpoint.rstrip("/") if endpoint else None
        try:
            self._credentials = find_credentials(self.endpoint, project, settings)
        except DefaultCredentialsError as error:
            raise OperationError(str(error)) from None
        self._timeout_s = timeout_s
        self.unreached: set[str] = set()
        self._apis: dict[str, Any] = {}

    def call(self, api: str, method: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a method, with retries while they can help.

        Args:
            api: Name and version of the API, such as `compute.v1`.
            method: The method as the API's description calls it, such as `regions.get`.
            arguments: The method's arguments.

        Raises:
            CallError: Without a usable answer.
        """
        request = self._request(api, method, arguments)
        # The library accepts the page of a proxy as a text, and an empty answer as an empty object.
        request.postproc = _object
        name, answer = str(request.methodId), self._send(api, request)
        try:
            wrong = next(discovery(api).faults(name, answer, newer=True), None)
        except RecursionError:
            wrong = "it is nested too deeply"
        if not wrong and "error" in answer and "error" not in discovery(api).fields(method):
            error = answer["error"]
            message = error.get("message") if isinstance(error, dict) else error
            wrong = f"it is an error, {_one_line(message)}"
        if wrong:
            raise CallError(name, f"the answer from {self._host(api)} is not understood: {wrong}")
        return answer

    def every(self, api: str, method: str, **arguments: Any) -> list[Any]:
        """The entries on all pages of a list. For an `aggregatedList`, the entries of all scopes. Arguments
        and errors are as in `call`.
        """
        key, entries = discovery(api).listed(method), []
        tokens: set[str] = set()
        while True:
            answer = self.call(api, method, **arguments)
            for places in ("unreachable", "unreachables", "missingZones"):
                self.unreached.update(place.rpartition("/")[2] for place in answer.get(places, ()))
            page = answer.get(key, [])
            if isinstance(page, Mapping):
                collection = method.split(".")[-2]
                for name, scope in page.items():
                    if (scope.get("warning") or {}).get("code") == "UNREACHABLE":
                        self.unreached.add(name.rpartition("/")[2])
                page = [item for scope in page.values() for item in scope.get(collection, ())]
            entries += page
            token = answer.get("nextPageToken")
            if not token:
                return entries
            if token in tokens:
                reason = f"the list does not end: {self._host(api)} names a page again that it has sent"
                raise CallError(f"{discovery(api).document['name']}.{method}", reason)
            if len(tokens) >= _MOST_PAGES:
                reason = f"the list does not end: {self._host(api)} has sent {_MOST_PAGES} pages"
                raise CallError(f"{discovery(api).document['name']}.{method}", reason)
            tokens.add(token)
            arguments["pageToken"] = token

    def read(self, bucket: str, name: str, *, most_bytes: int = 0) -> bytes | None:
        """The content of an object in a bucket, None if there is no such object.

        Args:
            most_bytes: Reads only so many bytes from the beginning. 0 reads all.

        Raises:
            CallError: As `call`.
        """
        try:
            arguments = {"bucket": bucket, "object": name}
            request = self._request("storage.v1", "objects.get_media", arguments)
            if most_bytes:
                request.headers["range"] = f"bytes=0-{most_bytes - 1}"
            return self._send("storage.v1", request, f"gs://{bucket}/{name}") or b""
        except CallError as error:
            if error.missing:
                return None
            raise

    def token(self) -> str:
        """An access token for a server that is not an API of Google's. Empty without credentials.

        Raises:
            OperationError: When Google does not accept the credentials.
        """
        try:
            if not self._credentials.valid:
                self._credentials.refresh(Request())
        except GoogleAuthError as error:
            raise OperationError(_not_accepted(error)) from None
        except ODD_ANSWER as error:
            raise OperationError(f"the answer to a request for a token {_oddity(error)}") from None
        return str(self._credentials.token or "")

    def identity_token(self, audience: str) -> str:
        """A token that tells a server who calls. Empty without credentials.

        Args:
            audience: Address of the server.

        Raises:
            OperationError: When there is none.
        """
        try:
            return identity_token(self._credentials, audience)
        except DefaultCredentialsError as error:
            raise OperationError(str(error)) from None
        except GoogleAuthError as error:
            raise OperationError(_not_accepted(error)) from None
        except ODD_ANSWER as error:
            raise OperationError(f"the answer to a request for a token {_oddity(error)}") from None

    def _request(self, api: str, method: str, arguments: Mapping[str, Any]) -> HttpRequest:
        if api not in self._apis:
            path = discovery(api).document["servicePath"]
            base = f"{self.endpoint}/{api}/{path}" if self.endpoint else None
            self._apis[api] = client(api, self._credentials, self._timeout_s, base)
        *collections, verb = method.split(".")
        resource = self._apis[api]
        for collection in collections:
            resource = getattr(resource, collection)()
        return getattr(resource, verb)(**arguments)

    def _send(self, api: str, request: HttpRequest, what: str = "the answer") -> Any:
        """Sends a request for `what`. Every failure becomes a `CallError`."""
        method = str(request.methodId)
        try:
            return request.execute(num_retries=_RETRIES)
        except HttpError as error:
            status = int(error.resp.status)
            # The page of a proxy has no message of Google's.
            reason = _one_line(error.reason) or http.client.responses.get(status, "")
            raise CallError(method, reason, status, *_disabled(error)) from None
        except GoogleAuthError as error:
            raise CallError(method, _not_accepted(error)) from None
        except TooLargeError as error:
            raise CallError(method, f"{what} is not read: {error}") from None
        except TimeoutError:
            raise CallError(method, f"no answer within {self._timeout_s:.0f} seconds") from None
        except CALL_ERRORS as error:
            raise CallError(method, f"no answer: {_one_line(error) or type(error).__name__}") from None
        except ODD_ANSWER as error:
            raise CallError(method, f"the answer from {self._host(api)} {_oddity(error)}") from None

    def _host(self, api: str) -> str:
        """The server that answers the calls of an API."""
        return urlsplit(self.endpoint or discovery(api).document["rootUrl"]).netloc


def _not_accepted(error: GoogleAuthError) -> str:
    if is_on_the_way(error):
        return "Google cannot be reached for a token; is this machine offline?"
    return f"the credentials are not accepted ({error}); gcloud auth application-default login"


def _disabled(error: HttpError) -> tuple[str, str]:
    """The API that is off, which is one reason for a 403, and the project in which it is off.

    https://docs.cloud.google.com/service-usage/docs/error-handling
    """
    details = error.error_details if isinstance(error.error_details, list) else []
    for detail in details:
        if isinstance(detail, Mapping) and detail.get("reason") == "SERVICE_DISABLED":
            metadata = detail.get("metadata")
            metadata = metadata if isinstance(metadata, Mapping) else {}
            return str(metadata.get("service", "")), last(metadata.get("consumer"))
    return "", ""


def _object(response: Answer, content: bytes) -> Any:
    """The JSON of an answer.

    Raises:
        ValueError: Without JSON. Every method that this module calls answers with JSON.
    """
    if response.status == http.client.NO_CONTENT:
        raise ValueError("it has no content")
    return json.loads(content)


def _oddity(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError | json.JSONDecodeError):
        return "is not JSON, or not all of it"
    if isinstance(error, RecursionError):
        return "is not understood: it is nested too deeply"
    return f"is not understood: {_one_line(error)}"


def _one_line(text: object) -> str:
    return " ".join(str(text or "").split())


def last(path: Any) -> str:
    """The last part of a path or URL."""
    return str(path or "").rpartition("/")[2]
