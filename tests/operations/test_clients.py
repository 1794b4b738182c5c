"""Calls to Google: every way in which they can end."""

import pytest

from operations.clients import Clients
from operations.errors import CallError
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
    google.fail("compute.v1", REGION, disabled("compute.googleapis.com"))
    off = failure(clients)
    told = [(each.missing, each.forbidden, each.disabled) for each in (missing, forbidden, off)]
    assert told == [(True, False, ""), (False, True, ""), (False, True, "compute.googleapis.com")]
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
        (A_PAGE, "the answer is not JSON"),
        (HALF, "the answer is not JSON"),
        (CUT, "no answer|not JSON"),
        (Fault(code=502, body=b"<html>Bad gateway</html>"), "502 Bad Gateway"),
        (Fault(body=b'{"quotas": "none"}'), "the answer is not understood: quotas is no list"),
        (Fault(body=b'{"quotas": [{"limit": "many"}]}'), "quotas[0].limit is no number"),
        (Fault(body=b"[]"), "it is no object"),
    ],
)
def test_a_call_that_fails_says_why_in_one_line(
    fault: Fault, text: str, google: GoogleServer, clients: Clients
) -> None:
    google.fail("compute.v1", REGION, fault)
    said = str(failure(clients))
    assert any(part in said for part in text.split("|"))


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


def test_two_versions_of_an_api_do_not_get_mixed_up(google: GoogleServer, clients: Clients) -> None:
    google.plant("serviceusage.v1", "serviceusage.services.list", {"services": [{"state": "ENABLED"}]})
    assert clients.every("serviceusage.v1", "services.list", parent="projects/p") == [{"state": "ENABLED"}]
    method, of = "services.consumerQuotaMetrics.list", "projects/p/services/compute.googleapis.com"
    assert clients.every("serviceusage.v1beta1", method, parent=of) == []
