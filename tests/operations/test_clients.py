"""Calls to Google: every way in which they can end."""

import pytest

from operations.clients import Clients
from operations.errors import CallError
from tests.operations.google_server import (
    A_PAGE,
    CUT,
    EXHAUSTED,
    HALF,
    NOT_FOUND,
    REFUSED,
    SLOW,
    UNAVAILABLE,
    Fault,
    GoogleServer,
)

REGION = "compute.regions.get"


@pytest.fixture
def google(google: GoogleServer) -> GoogleServer:
    google.plant("compute.v1", REGION, {"name": "us-central1", "status": "UP"}, region="us-central1")
    return google


def region(clients: Clients, name: str = "us-central1") -> dict[str, object]:
    return clients.call("compute.v1", "regions.get", project="my-project", region=name)


def test_an_answer_arrives(clients: Clients) -> None:
    assert region(clients) == {"name": "us-central1", "status": "UP"}


def test_what_does_not_exist_is_told_from_what_may_not_be_asked(
    google: GoogleServer, clients: Clients
) -> None:
    with pytest.raises(CallError) as missing:
        region(clients, "us-middle1")
    google.fail("compute.v1", REGION, REFUSED)
    with pytest.raises(CallError) as refused:
        region(clients)
    assert (missing.value.missing, missing.value.forbidden) == (True, False)
    assert (refused.value.missing, refused.value.forbidden) == (False, True)
    assert str(refused.value) == "compute.regions.get: 403 Permission denied on the resource."


@pytest.mark.parametrize("fault", [EXHAUSTED, UNAVAILABLE, CUT], ids=["429", "503", "cut"])
def test_a_call_is_tried_again_when_that_can_help(
    fault: Fault, google: GoogleServer, clients: Clients, waits: list[float]
) -> None:
    google.fail("compute.v1", REGION, fault, times=2)
    if fault is CUT:
        # Half an answer is not asked for again: the call may have had its effect.
        with pytest.raises(CallError, match=r"no answer|not JSON"):
            region(clients)
        return
    assert region(clients)["status"] == "UP"
    assert len(waits) == 2


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
        (Fault(body=b'{"quotas": [{"limit": "many"}]}'), r"quotas\[0\].limit is no number"),
        (Fault(body=b"[]"), "it is no object"),
    ],
)
def test_a_call_that_fails_says_why_in_one_line(
    fault: Fault, text: str, google: GoogleServer, clients: Clients
) -> None:
    google.fail("compute.v1", REGION, fault)
    with pytest.raises(CallError, match=text) as failed:
        region(clients)
    assert "\n" not in str(failed.value)


def test_nobody_listening_is_said_too() -> None:
    with GoogleServer() as gone:
        pass
    with pytest.raises(CallError, match="no answer"):
        region(Clients("my-project", gone.address))


def test_a_list_has_what_is_on_all_its_pages(google: GoogleServer, clients: Clients) -> None:
    def page(call: object, _body: object) -> dict[str, object]:
        second = getattr(call, "query", {}).get("pageToken") == "next"
        return {"items": [{"name": "b"}]} if second else {"items": [{"name": "a"}], "nextPageToken": "next"}

    google.plant("compute.v1", "compute.disks.list", page)
    disks = clients.every("compute.v1", "disks.list", project="p", zone="us-central1-a")
    assert [disk["name"] for disk in disks] == ["a", "b"]


def test_two_versions_of_an_api_do_not_get_mixed_up(google: GoogleServer, clients: Clients) -> None:
    google.plant("serviceusage.v1", "serviceusage.services.list", {"services": [{"state": "ENABLED"}]})
    assert clients.every("serviceusage.v1", "services.list", parent="projects/p") == [{"state": "ENABLED"}]
    method, of = "services.consumerQuotaMetrics.list", "projects/p/services/compute.googleapis.com"
    assert clients.every("serviceusage.v1beta1", method, parent=of) == []


def test_a_method_that_nobody_planted_is_not_found(clients: Clients) -> None:
    with pytest.raises(CallError) as missing:
        name = "projects/p/locations/l/clusters/c"
        clients.call("container.v1", "projects.locations.clusters.get", name=name)
    assert missing.value.reason == NOT_FOUND.message
