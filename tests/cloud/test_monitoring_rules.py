"""What Cloud Monitoring refuses."""

import json
from typing import Any

import pytest

from cloud.rules import problems
from cloud.services import monitoring


def tile(title: str, **place: int) -> dict[str, Any]:
    return {"width": 6, "height": 4, "widget": {"title": title}, **place}


def dashboard(*tiles: dict[str, Any], columns: int = 12) -> dict[str, Any]:
    tree = {"displayName": "a", "mosaicLayout": {"columns": columns, "tiles": tiles}}
    return {"dashboardJson": json.dumps(tree)}


QUERY = {"query": "up", "duration": "60s", "evaluationInterval": "60s"}
BY_QUERY = {"conditionPrometheusQueryLanguage": QUERY}
BY_LOG = {"conditionMatchedLog": {"filter": "a"}}
RATE = {"notificationRateLimit": {"period": "300s"}}


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        (dashboard(tile("a"), tile("b", xPos=6)), ""),
        (dashboard(tile("a"), tile("b", xPos=3)), "b lies on a"),
        (dashboard(tile("a", xPos=8)), "a reaches beyond the last column"),
        (dashboard(columns=49), "49 columns"),
        ({"dashboardJson": "{"}, "is no dashboard"),
        ({"dashboardJson": "{}"}, "is no dashboard"),
    ],
)
def test_a_dashboard_that_google_would_refuse_is_refused(inputs: dict[str, Any], words: str) -> None:
    texts = [text for _, text in problems(monitoring.DASHBOARD, inputs)]
    assert [words in text for text in texts] == ([True] if words else [])


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"conditions": [BY_QUERY], "combiner": "OR"}, ""),
        ({"conditions": [BY_LOG], "combiner": "OR", "alertStrategy": RATE}, ""),
        ({"conditions": [BY_LOG]}, "needs notificationRateLimit"),
        ({"conditions": [BY_QUERY], "alertStrategy": RATE}, "only for conditions on logs"),
        ({"conditions": [BY_LOG, BY_QUERY], "alertStrategy": RATE}, "must be the only one"),
        (
            {"conditions": [{"conditionPrometheusQueryLanguage": {**QUERY, "duration": "90s"}}]},
            "multiple of 60s",
        ),
        ({"combiner": "ANY"}, "is not one of"),
        ({"userLabels": {"Stack": "a"}}, "label key"),
    ],
)
def test_an_alert_that_google_would_refuse_is_refused(inputs: dict[str, Any], words: str) -> None:
    texts = [text for _, text in problems(monitoring.ALERT_POLICY, inputs)]
    assert [words in text for text in texts] == ([True] if words else [])


@pytest.mark.parametrize(("address", "refused"), [("a@example.com", False), ("a", True)])
def test_an_address_that_is_none_is_refused(address: str, refused: bool) -> None:
    inputs = {"type": "email", "labels": {"email_address": address}}
    assert bool([*problems(monitoring.CHANNEL, inputs)]) is refused
