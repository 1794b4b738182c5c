"""Google's APIs: the one place where clients are made and calls are sent.

`google-api-python-client` for all of them: one library, and the descriptions of the APIs are in it.
"""

import http.client
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import httplib2
from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
from google.auth.transport.requests import Request
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build_from_document
from googleapiclient.errors import HttpError
from googleapiclient.http import HttpRequest

from cloud.credentials import find_credentials
from cloud.discovery import Discovery, discovery
from operations.errors import CallError, OperationError

# An answer to one question; lists come in pages.
_TIMEOUT_S: Final = 20.0
# After 429, 5xx, a lost connection: with growing pauses, 1, 3 and 7 seconds at most.
_RETRIES: Final = 3

# It reports every try that fails; what comes of a call is said once, by who asked.
logging.getLogger("googleapiclient").setLevel(logging.ERROR)


class Clients:
    """Clients of Google's APIs, made when they are asked for.

    Args:
        project: Project that the calls of a person's own credentials count for.
        endpoint: A server that answers in Google's place under `ENDPOINT/API/`; None for Google.
        timeout_s: Seconds until a call without an answer is given up.

    Attributes:
        endpoint: As given, without a slash at its end.

    Raises:
        OperationError: Without Application Default Credentials.
    """

    def __init__(self, project: str, endpoint: str | None = None, *, timeout_s: float = _TIMEOUT_S) -> None:
        self.endpoint = endpoint.rstrip("/") if endpoint else None
        try:
            self._credentials = find_credentials(self.endpoint, project)
        except DefaultCredentialsError as error:
            raise OperationError(str(error)) from None
        self._timeout_s = timeout_s
        self._made: dict[str, Any] = {}

    def api(self, name: str) -> Any:
        """The client of an API by name and version, such as `compute.v1`.

        `api("compute.v1").regions().get(project=..., region=...)` makes a request for `call`.
        """
        if name not in self._made:
            api = discovery(name)
            base = f"{self.endpoint}/{name}/{api.document['servicePath']}" if self.endpoint else None
            transport = httplib2.Http(timeout=self._timeout_s)
            self._made[name] = build_from_document(
                api.document,
                client_options={"api_endpoint": base} if base else None,
                http=AuthorizedHttp(self._credentials, http=transport),
                requestBuilder=partial(_Request, api),
            )
        return self._made[name]

    def call(self, request: "_Request") -> dict[str, Any]:
        """The answer to a request, tried again while that can help.

        Raises:
            CallError: Without a usable answer.
        """
        method = str(request.methodId)
        answer = self._send(request)
        if isinstance(answer, str) and answer:
            raise CallError(method, "the answer is not JSON, or not all of it")
        wrong = next(request.api.faults(method, answer, newer=True), None)
        if wrong:
            raise CallError(method, f"the answer is not understood: {wrong}")
        return answer or {}

    def read(self, bucket: str, name: str) -> bytes | None:
        """What an object of a bucket holds; None when there is none of that name.

        Raises:
            CallError: As `call`.
        """
        try:
            return self._send(self.api("storage.v1").objects().get_media(bucket=bucket, object=name)) or b""
        except CallError as error:
            if error.missing:
                return None
            raise

    def token(self) -> str:
        """An access token for a server that is no API of Google's; empty without credentials.

        Raises:
            OperationError: When the credentials are not accepted.
        """
        try:
            if not self._credentials.valid:
                self._credentials.refresh(Request())
        except GoogleAuthError as error:
            raise OperationError(
                f"the credentials are not accepted ({error}); gcloud auth application-default login"
            ) from None
        return str(self._credentials.token or "")

    def _send(self, request: "_Request") -> Any:
        """Sends a request; every way in which that can fail becomes a `CallError`."""
        method = str(request.methodId)
        try:
            return request.execute(num_retries=_RETRIES)
        except HttpError as error:
            raise CallError(method, _reason(error), int(error.resp.status), _disabled(error)) from None
        except GoogleAuthError as error:
            raise CallError(
                method, f"the credentials are not accepted ({error}); gcloud auth application-default login"
            ) from None
        except TimeoutError:
            raise CallError(method, f"no answer within {self._timeout_s:.0f} seconds") from None
        except (OSError, httplib2.error.HttpLib2Error, http.client.HTTPException) as error:
            raise CallError(method, f"no answer: {error or type(error).__name__}") from None

    def every(self, collection: Any, key: str, method: str = "list", **arguments: Any) -> list[Any]:
        """What a list method has on all its pages.

        Args:
            collection: Such as `api("compute.v1").disks()`.
            key: Name of the field that holds the list, such as `items`.
            method: Name of the method.
            arguments: Those of the method.

        Raises:
            CallError: As `call`.
        """
        found: list[Any] = []
        request = getattr(collection, method)(**arguments)
        while request is not None:
            answer = self.call(request)
            page = answer.get(key, [])
            found.extend(page.items() if isinstance(page, Mapping) else page)
            request = getattr(collection, f"{method}_next")(request, answer)
        return found


class _Request(HttpRequest):
    """A request that knows the description of its API.

    Args:
        api: The description.
        arguments: Those of the library.
    """

    def __init__(self, api: Discovery, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.api = api


def _reason(error: HttpError) -> str:
    """Google's sentence, in one line; the page of a proxy has none."""
    reason = " ".join(str(error.reason or "").split())
    return reason or http.client.responses.get(int(error.resp.status), "no reason given")


def _disabled(error: HttpError) -> str:
    """The API that must be enabled first, which is one of the reasons for a 403.

    https://docs.cloud.google.com/service-usage/docs/error-handling
    """
    details = error.error_details if isinstance(error.error_details, list) else []
    for detail in details:
        if isinstance(detail, Mapping) and detail.get("reason") == "SERVICE_DISABLED":
            return str((detail.get("metadata") or {}).get("service", ""))
    return ""
