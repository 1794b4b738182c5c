"""The clients of Google's APIs."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from google.auth.credentials import AnonymousCredentials

from cloud.client import CALL_ERRORS, client

END = b"end"


def test_a_creation_without_an_answer_is_not_sent_again() -> None:
    """A second build would run, and nobody would know of it."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        sent = pool.submit(_requests, server)
        host, port = server.getsockname()
        api = client("cloudbuild.v1", AnonymousCredentials(), 5, f"http://{host}:{port}/")
        builds = api.projects().locations().builds()
        with pytest.raises(CALL_ERRORS):
            builds.create(parent="projects/my-project/locations/us-central1", body={}).execute()
        with socket.create_connection((host, port)) as last:
            last.sendall(END)
        assert len(sent.result()) == 1


def _requests(server: socket.socket) -> list[bytes]:
    """Ends every connection without an answer. Returns what was sent, until somebody sends the end."""
    received = []
    while END not in received:
        connection, _ = server.accept()
        with connection:
            received.append(connection.recv(65536))
    return [request for request in received if request not in (b"", END)]
