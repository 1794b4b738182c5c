"""The way to a cluster: GKE's address, its own authority, the operator's token."""

import base64
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import google.auth.credentials
import pytest

from operations.errors import CallError, OperationError
from operations.google.clients import Clients
from operations.status.cluster import from_google
from rehearsal.stand_ins.loopback import LoopbackServer, Request
from tests.operations.certificate import certify
from tests.operations.google_server import GoogleServer

TOKEN = "ya29.planted-in-a-test"


class Tls(LoopbackServer):
    """An API server behind TLS that answers requests with the token."""

    def __init__(self, file: Path) -> None:
        self.certificate = certify(file)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(file)

    def described(self, certificate: bytes = b"") -> dict[str, Any]:
        """The cluster as GKE describes it."""
        authority = base64.b64encode(certificate or self.certificate).decode()
        return {
            "endpoint": self.address.removeprefix("http://"),
            "masterAuth": {"clusterCaCertificate": authority},
        }

    def serve(self, request: Request) -> None:
        """Answers with a list, or rejects the token."""
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
    with Tls(tmp_path / "server.pem") as server:
        yield server


Reach = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def reach(tls: Tls, google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> Reach:
    """The nodes of the cluster that GKE describes, with changes, to somebody with a token."""

    def reach(token: str = TOKEN, **changes: Any) -> list[dict[str, Any]]:
        monkeypatch.setattr("operations.google.clients.find_credentials", lambda *_: Credentials(token))
        cluster = from_google(Clients("p", google.address), {**tls.described(), **changes})
        return cluster.every("/api/v1/nodes")

    return reach


def test_the_cluster_is_asked_with_the_operators_token(reach: Reach) -> None:
    assert reach() == [{"metadata": {"name": "a"}}]


def test_a_cluster_with_another_authority_gets_no_token(reach: Reach, tls: Tls, tmp_path: Path) -> None:
    stranger = certify(tmp_path / "stranger.pem")
    with pytest.raises(CallError, match="no answer from the cluster"):
        reach(**tls.described(stranger))


def named(tls: Tls, **changes: Any) -> dict[str, Any]:
    """What GKE says in addition of a cluster whose DNS endpoint is open. No authority of its own helps."""
    name = {"allowExternalTraffic": True, "endpoint": tls.address.removeprefix("http://"), **changes}
    return {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": name}, "endpoint": "192.0.2.1"}


def test_a_cluster_with_a_name_is_trusted_by_public_authorities(
    reach: Reach, tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = tls.described(certify(tmp_path / "stranger.pem"))
    with pytest.raises(CallError, match="no answer from the cluster"):
        reach(**{**stranger, **named(tls)})
    # OpenSSL takes the certificates of this file for the public authorities.
    authorities = tmp_path / "authorities.pem"
    authorities.write_bytes(tls.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(authorities))
    assert reach(**{**stranger, **named(tls)}) == [{"metadata": {"name": "a"}}]


def test_a_name_that_is_not_open_is_not_asked(reach: Reach, tls: Tls) -> None:
    closed = named(tls, allowExternalTraffic=False, endpoint="192.0.2.2")
    assert reach(**{**closed, **tls.described()}) == [{"metadata": {"name": "a"}}]


def test_a_token_that_the_cluster_rejects_is_said_and_not_shown(reach: Reach) -> None:
    with pytest.raises(CallError) as rejected:
        reach("ya29.another")
    assert rejected.value.status == 401
    assert "ya29" not in str(rejected.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"endpoint": None}, "no address yet"),
        (
            {"controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}}},
            "no address",
        ),
        ({"masterAuth": None}, "no address yet"),
        ({"masterAuth": {"clusterCaCertificate": "AAAA"}}, "no answer"),
    ],
)
def test_a_cluster_without_address_or_authority_is_said(
    changes: dict[str, Any], message: str, reach: Reach
) -> None:
    with pytest.raises(OperationError, match=message):
        reach(**changes)
