"""The way to a cluster: GKE's address, its own authority, the operator's token."""

import base64
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import google.auth.credentials
import pytest

from operations.clients import Clients
from operations.errors import CallError, OperationError
from operations.status.cluster import from_google
from rehearsal.control_plane.certificates import SERVER, Authority
from rehearsal.loopback import LoopbackServer, Request
from tests.operations.google_server import GoogleServer

TOKEN = "ya29.planted-in-a-test"


class Tls(LoopbackServer):
    """An API server behind TLS that answers whoever shows the token."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "keys", "cluster-ca")
        pair = self.authority.issue("apiserver", SERVER)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(pair.certificate, pair.key)

    def described(self, authority: Authority | None = None) -> dict[str, Any]:
        """The cluster as GKE describes it."""
        certificate = (authority or self.authority).pair.certificate.read_bytes()
        return {
            "endpoint": self.address.removeprefix("http://"),
            "masterAuth": {"clusterCaCertificate": base64.b64encode(certificate).decode()},
        }

    def serve(self, request: Request) -> None:
        """Answers with a list, or refuses."""
        allowed = request.headers["Authorization"] == f"Bearer {TOKEN}"
        content = b'{"items": [{"metadata": {"name": "a"}}]}' if allowed else b'{"message": "Unauthorized"}'
        request.answer(200 if allowed else 401, content)


class Credentials(google.auth.credentials.Credentials):
    """Credentials that have to be refreshed before they are of use."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._next = token

    def refresh(self, request: Any) -> None:
        self.token = self._next


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[Tls]:
    with Tls(tmp_path) as server:
        yield server


@pytest.fixture
def clients(google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Clients:
    monkeypatch.setattr("operations.clients.find_credentials", lambda *_: Credentials(TOKEN))
    return Clients("p", google.address)


def test_the_cluster_is_asked_with_the_operators_token(tls: Tls, clients: Clients) -> None:
    assert from_google(clients, tls.described()).every("/api/v1/nodes") == [{"metadata": {"name": "a"}}]


def test_a_cluster_with_another_authority_gets_no_token(tls: Tls, clients: Clients, tmp_path: Path) -> None:
    stranger = Authority(tmp_path / "stranger", "stranger-ca")
    with pytest.raises(CallError, match="no answer from the cluster"):
        from_google(clients, tls.described(stranger)).every("/api/v1/nodes")


def test_a_token_that_the_cluster_refuses_is_said_and_not_shown(
    tls: Tls, google: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operations.clients.find_credentials", lambda *_: Credentials("ya29.another"))
    with pytest.raises(CallError) as refused:
        from_google(Clients("p", google.address), tls.described()).every("/api/v1/nodes")
    assert refused.value.refused
    assert "ya29" not in str(refused.value)


@pytest.mark.parametrize("missing", ["endpoint", "masterAuth"])
def test_a_cluster_without_an_address_is_said(missing: str, tls: Tls, clients: Clients) -> None:
    described = {key: value for key, value in tls.described().items() if key != missing}
    with pytest.raises(OperationError, match="no address yet"):
        from_google(clients, described)


def test_an_authority_that_is_none_is_said(tls: Tls, clients: Clients) -> None:
    described = {**tls.described(), "masterAuth": {"clusterCaCertificate": "AAAA"}}
    with pytest.raises(OperationError):
        from_google(clients, described).every("/api/v1/nodes")
