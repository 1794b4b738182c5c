"""A client of one of Google's APIs, made from Google's description of it.

`google-api-python-client` for all of them: one library, and the descriptions of the APIs are in it.
"""

import logging
from typing import Any, Final

import httplib2
import requests
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError, TransportError
from google.auth.transport.requests import AuthorizedSession
from googleapiclient.discovery import build_from_document
from googleapiclient.errors import HttpError

from cloud.discovery import discovery

# Every error that a call can end with: an answer that is one, the credentials, the way there.
CALL_ERRORS: Final = (HttpError, GoogleAuthError, OSError)

# It reports every attempt that fails; what comes of a call is said once, by who asked.
logging.getLogger("googleapiclient").setLevel(logging.ERROR)


class _Http:
    """What the library sends requests with, each once.

    httplib2, its own, sends a request again when its connection ends without an answer. What creates
    something may have done so the first time; whoever called finds out before the next attempt.
    """

    def __init__(self, credentials: Credentials, timeout_s: float) -> None:
        self._session = AuthorizedSession(credentials)
        self._timeout_s = timeout_s

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: Any = None
    ) -> tuple[httplib2.Response, bytes]:
        """The answer, or an error of those that the library knows."""
        try:
            answer = self._session.request(method, uri, body, headers, timeout=self._timeout_s)
        except requests.Timeout as error:
            raise TimeoutError(error) from None
        except requests.ConnectionError as error:
            raise ConnectionError(error) from None
        response = httplib2.Response({**answer.headers, "status": str(answer.status_code)})
        response.reason = answer.reason
        return response, answer.content


def client(api: str, credentials: Credentials, timeout_s: float, endpoint: str | None = None) -> Any:
    """The client of an API, `client("compute.v1", ...).regions().get(region=...).execute()`.

    Args:
        timeout_s: Seconds until a call without an answer is given up.
        endpoint: Address of a server that answers in Google's place, None for Google.
    """
    return build_from_document(
        discovery(api).document,
        client_options={"api_endpoint": endpoint} if endpoint else None,
        http=_Http(credentials, timeout_s),
    )


def is_on_the_way(error: GoogleAuthError) -> bool:
    """Whether it is not the credentials: a new token could not be fetched."""
    return error.retryable or any(isinstance(each, TransportError) for each in (error, error.__cause__))
