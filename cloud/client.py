"""A client of one of Google's APIs, made from Google's description of it.

`google-api-python-client` for all of them: one library, and the descriptions of the APIs are in it.
"""

import http.client
import logging
from typing import Any, Final

import httplib2
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google_auth_httplib2 import AuthorizedHttp
from googleapiclient.discovery import build_from_document
from googleapiclient.errors import HttpError

from cloud.discovery import discovery

# Every error that a call can end with: an answer that is one, the credentials, the way there.
CALL_ERRORS: Final = (
    HttpError,
    GoogleAuthError,
    OSError,
    httplib2.error.HttpLib2Error,
    http.client.HTTPException,
)

# It reports every attempt that fails; what comes of a call is said once, by who asked.
logging.getLogger("googleapiclient").setLevel(logging.ERROR)


class _Http(httplib2.Http):
    """Sends a POST once.

    httplib2 sends a request again when its connection ends without an answer. What creates something may have
    done so the first time; whoever called finds out before the next attempt.
    """

    def _conn_request(self, conn: Any, request_uri: str, method: str, body: Any, headers: Any) -> Any:
        conn = _Once(conn) if method == "POST" else conn
        return super()._conn_request(conn, request_uri, method, body, headers)


class _Once:
    """A connection for one request."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self._sent = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._conn, name)

    def request(self, *arguments: Any) -> None:
        """Sends the first request, and no other."""
        if self._sent:
            self._conn.close()
            raise ConnectionResetError("the connection ended without an answer")
        self._sent = True
        self._conn.request(*arguments)


def client(api: str, credentials: Credentials, timeout_s: float, endpoint: str | None = None) -> Any:
    """The client of an API, `client("compute.v1", ...).regions().get(region=...).execute()`.

    Args:
        timeout_s: Seconds until a call without an answer is given up.
        endpoint: Address of a server that answers in Google's place, None for Google.
    """
    return build_from_document(
        discovery(api).document,
        client_options={"api_endpoint": endpoint} if endpoint else None,
        http=AuthorizedHttp(credentials, http=_Http(timeout=timeout_s)),
    )
