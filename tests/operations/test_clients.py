"""Calls to Google: every way in which they can end."""

from itertools import count, cycle

import pytest

import operations.google.clients
from operations.errors import CallError
from operations.google.clients import Clients
from tests.operations.google_server import (
    A_PAGE,
    CUT,
    EXHAUSTED,
    HALF,
    REFUSED,
    SLOW,
    UNAVAILABLE,
    Fault,
    GoogleServer,
    disabled,
)

REGION = "compute.regions.get"


@pytest.fixture
def google(google: GoogleServer) -> GoogleServer:
    google.plant("compute.v1", REGION, {"name": "us-central1", "status": "UP"}, region="us-central1")
    return google


def region(clients: Clients, name: str = "us-central1") -> dict[str, object]:
    return clients.call("compute.v1", "regions.get", project="my-project", region=name)


def failure(clients: Clients, name: str = "us-central1") -> CallError:
    with pytest.raises(CallError) as failed:
        region(clients, name)
    assert "\n" not in str(failed.value)
    return failed.value


def test_what_does_not_exist_is_told_from_what_may_not_be_asked(
    google: GoogleServer, clients: Clients
) -> None:
    missing = failure(clients, "us-middle1")
    google.fail("compute.v1", REGION, REFUSED)
    forbidden = failure(clients)
    google.fail("compute.v1", REGION, disabled("compute.googleapis.com", "my-quota-project"))
    off = failure(clients)
    kinds = [(error.missing, error.forbidden, error.disabled) for error in (missing, forbidden, off)]
    assert kinds == [(True, False, ""), (False, True, ""), (False, True, "compute.googleapis.com")]
    assert off.consumer == "my-quota-project"
    assert str(forbidden) == "compute.regions.get: 403 Permission denied on the resource."


@pytest.mark.parametrize("fault", [EXHAUSTED, UNAVAILABLE])
def test_a_call_is_tried_again_when_that_can_help(
    fault: Fault, google: GoogleServer, clients: Clients, waits: list[float]
) -> None:
    google.fail("compute.v1", REGION, fault, times=2)
    assert region(clients) == {"name": "us-central1", "status": "UP"}
    assert len(waits) == 2


def test_half_an_answer_is_not_asked_for_again(google: GoogleServer, clients: Clients) -> None:
    """The call may have had its effect."""
    google.fail("compute.v1", REGION, CUT, times=1)
    assert failure(clients).status is None


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (EXHAUSTED, "429 Quota exceeded"),
        (UNAVAILABLE, "503 The service is currently unavailable"),
        (SLOW, "no answer within"),
        (A_PAGE, "the answer from 127.0.0.1:PORT is not JSON"),
        (HALF, "the answer from 127.0.0.1:PORT is not JSON"),
        (Fault(body=b"h\xf4tel: sign in"), "the answer from 127.0.0.1:PORT is not JSON"),
        (Fault(body=b'{"name": "h\xf4tel"}'), "the answer from 127.0.0.1:PORT is not JSON"),
        (Fault(code=403, body=b'{"error": null}'), "the answer from 127.0.0.1:PORT is not understood"),
        (Fault(code=403, body=b"[]"), "the answer from 127.0.0.1:PORT is not understood"),
        (Fault(body=b'{"error": null}'), "it is an error"),
        (Fault(body=b'{"error": {"code": 500, "message": "it\\nbroke"}}'), "it is an error, it broke"),
        (Fault(body=b"[" * 100_000), "is not understood: it is nested too deeply"),
        (Fault(code=500, body=b'{"error": ' * 100_000), "is not understood: it is nested too deeply"),
        (Fault(code=204, body=b""), "is not understood: it has no content"),
        (Fault(body=b""), "is not JSON"),
        (Fault(body=b"null"), "it is no object"),
        (CUT, "no answer|not JSON"),
        (Fault(code=502, body=b"<html>Bad gateway</html>"), "502 Bad Gateway"),
        (Fault(body=b'{"quotas": "none"}'), "is not understood: quotas is no list"),
        (Fault(body=b'{"quotas": [{"limit": "many"}]}'), "quotas[0].limit is no number"),
        (Fault(body=b"[]"), "it is no object"),
    ],
)
def test_a_call_that_fails_says_why_in_one_line(
    fault: Fault, text: str, google: GoogleServer, clients: Clients
) -> None:
    google.fail("compute.v1", REGION, fault)
    if fault.hang:
        clients = Clients("my-project", google.address, timeout_s=0.5)
    message = str(failure(clients))
    port = google.address.rpartition(":")[2]
    assert any(part.replace("PORT", port) in message for part in text.split("|"))


def test_nobody_listening_is_said_too() -> None:
    with GoogleServer() as gone:
        pass
    assert "no answer" in str(failure(Clients("my-project", gone.address)))


def test_a_list_has_what_is_on_all_its_pages_and_in_all_its_scopes(
    google: GoogleServer, clients: Clients
) -> None:
    def page(call: object, _body: object) -> dict[str, object]:
        second = getattr(call, "query", {}).get("pageToken") == "next"
        scope = {f"zones/{'b' if second else 'a'}": {"disks": [{"name": "b" if second else "a"}]}}
        return {"items": {**scope, "zones/c": {}}, **({} if second else {"nextPageToken": "next"})}

    google.plant("compute.v1", "compute.disks.aggregatedList", page)
    disks = clients.every("compute.v1", "disks.aggregatedList", project="p")
    assert [disk["name"] for disk in disks] == ["a", "b"]


@pytest.mark.parametrize("tokens", [["a"], ["a", "b"]])
def test_a_list_whose_pages_never_end_is_an_error(
    tokens: list[str], google: GoogleServer, clients: Clients
) -> None:
    again = cycle(tokens)

    def page(*_: object) -> dict[str, object]:
        return {"items": [{"name": "d"}], "nextPageToken": next(again)}

    google.plant("compute.v1", "compute.disks.list", page)
    with pytest.raises(CallError, match=r"compute.disks.list: the list does not end: 127\.0\.0\.1:\d+ names"):
        clients.every("compute.v1", "disks.list", project="p", zone="z")


def test_a_list_with_ever_new_pages_is_an_error(
    google: GoogleServer, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations.google.clients, "_MOST_PAGES", 3)
    pages = count()
    google.plant("compute.v1", "compute.disks.list", lambda *_: {"nextPageToken": str(next(pages))})
    with pytest.raises(CallError, match=r"the list does not end: 127\.0\.0\.1:\d+ has sent 3 pages"):
        clients.every("compute.v1", "disks.list", project="p", zone="z")


def test_two_versions_of_an_api_do_not_get_mixed_up(google: GoogleServer, clients: Clients) -> None:
    google.plant("serviceusage.v1", "serviceusage.services.list", {"services": [{"state": "ENABLED"}]})
    assert clients.every("serviceusage.v1", "services.list", parent="projects/p") == [{"state": "ENABLED"}]
    method, of = "services.consumerQuotaMetrics.list", "projects/p/services/compute.googleapis.com"
    assert clients.every("serviceusage.v1beta1", method, parent=of) == []


def test_what_a_server_says_cannot_write_to_the_terminal(google: GoogleServer, clients: Clients) -> None:
    hidden = "\x1b[2Jgone\x9b1m \u202egnihton\u200b \x07"
    google.fail("compute.v1", REGION, Fault(code=403, status="PERMISSION_DENIED", message=hidden))
    message = str(failure(clients))
    assert message.isprintable()
    assert "\\x1b[2Jgone" in message and "\\u202egnihton\\u200b" in message
