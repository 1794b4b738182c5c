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

# The form in which the library reads an answer. httplib2 itself sends nothing.
Answer = httplib2.Response
# Bytes of an answer, unpacked. Lists come in pages, and no file that a command reads whole is as large.
MOST_BYTES: Final = 2**26
_PIECE_BYTES: Final = 2**16

# The library logs every attempt that fails. The caller reports the result of a call, once.
logging.getLogger("googleapiclient").setLevel(logging.ERROR)


class TooLargeError(Exception):
    """An answer that was given up because of its size, such as an object that somebody else has written."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {MOST_BYTES >> 20} MiB")


# Every other error that a call can end with: an error as the answer, bad credentials, a broken connection.
CALL_ERRORS: Final = (HttpError, GoogleAuthError, OSError)


class _Http:
    """Sends the library's requests, each of them once.

    The library's own transport, httplib2, repeats a request whose connection ends without an answer. The
    first request may have created something. So the caller looks before it tries again.
    """

    def __init__(self, credentials: Credentials, timeout_s: float) -> None:
        self._session = AuthorizedSession(credentials)
        self._timeout_s = timeout_s

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: Any = None
    ) -> tuple[Answer, bytes]:
        """Returns the answer, or raises an error that the library knows or `TooLargeError`."""
        try:
            with self._session.request(
                method, uri, body, headers, timeout=self._timeout_s, stream=True
            ) as answer:
                content = _bounded(answer, (headers or {}).get("range"))
        except requests.Timeout as error:
            raise TimeoutError(error) from None
        except requests.ConnectionError as error:
            raise ConnectionError(error) from None
        response = Answer({**answer.headers, "status": str(answer.status_code)})
        response.reason = answer.reason
        return response, content


def _bounded(answer: requests.Response, part: str | None) -> bytes:
    """The content of an answer, unpacked piece by piece.

    Args:
        part: The part of it that was asked for, as `bytes=0-99`. An object that is stored compressed comes
            whole all the same.
    """
    content, most = bytearray(), int(part.rpartition("-")[2]) + 1 if part else MOST_BYTES
    for piece in answer.iter_content(_PIECE_BYTES):
        content += piece
        if len(content) > most:
            break
    if len(content) > most and not part:
        raise TooLargeError
    return bytes(content[:most])


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
    """Whether a new token could not be fetched, although the credentials are right."""
    return error.retryable or any(isinstance(cause, TransportError) for cause in (error, error.__cause__))
