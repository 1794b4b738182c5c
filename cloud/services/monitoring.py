"""Cloud Monitoring: dashboards, alerting policies, and whom they tell."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from cloud.inputs import UNKNOWN, at, objects, texts
from cloud.record import Inputs, Listing, Problem, Record, verbs
from cloud.rules import one_of

_record = partial(Record, api="monitoring.googleapis.com")
_listing = partial(Listing, detail=lambda item: item.get("displayName", ""))

# https://docs.cloud.google.com/monitoring/api/ref_dashboards/rest/v1/projects.dashboards#mosaiclayout
_MOST_COLUMNS: Final = 48
# https://docs.cloud.google.com/monitoring/quotas
_MOST_TILES: Final = 100
_MOST_CHANNELS: Final = 16
_SECONDS: Final = re.compile(r"(\d+)s")
_LOG: Final = "conditions[].conditionMatchedLog"
_PROMQL: Final = "conditions[].conditionPrometheusQueryLanguage"
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")

Tile = Mapping[str, Any]


def _dashboard(inputs: Inputs) -> Iterator[Problem]:
    """The text must be a dashboard as Google's API reads it, with tiles that do not overlap."""
    for text in texts(inputs, "dashboardJson"):
        # A part of the text that is not known yet makes all of it unknown.
        if UNKNOWN in text:
            continue
        try:
            dashboard = json.loads(text)
            title, layout = dashboard["displayName"], dashboard["mosaicLayout"]
        except (ValueError, TypeError, KeyError) as error:
            yield "dashboardJson", f"is no dashboard with displayName and mosaicLayout ({error!r})"
            continue
        if not title:
            yield "dashboardJson", "displayName is empty"
        yield from (("dashboardJson", problem) for problem in _layout(layout))


def _layout(layout: Mapping[str, Any]) -> Iterator[str]:
    columns, tiles = layout.get("columns", 0), layout.get("tiles", ())
    if not 1 <= columns <= _MOST_COLUMNS:
        yield f"{columns} columns, 1 to {_MOST_COLUMNS} are allowed"
    if len(tiles) > _MOST_TILES:
        yield f"{len(tiles)} tiles, at most {_MOST_TILES} are allowed"
    taken: dict[tuple[int, int], str] = {}
    for tile in tiles:
        title = tile["widget"].get("title", "a tile")
        across, down = tile.get("xPos", 0), tile.get("yPos", 0)
        if across + tile["width"] > columns:
            yield f"{title} reaches beyond the last column"
        for place in _cells(across, down, tile):
            if other := taken.get(place):
                yield f"{title} lies on {other}"
                break
            taken[place] = title


def _cells(across: int, down: int, tile: Tile) -> Iterator[tuple[int, int]]:
    for column in range(across, across + tile["width"]):
        for row in range(down, down + tile["height"]):
            yield column, row


def _policy(inputs: Inputs) -> Iterator[Problem]:
    yield from one_of(inputs, "combiner", "AND", "OR", "AND_WITH_MATCHING_RESOURCE")
    yield from one_of(inputs, "severity", "CRITICAL", "ERROR", "WARNING")
    if len([*texts(inputs, "notificationChannels[]")]) > _MOST_CHANNELS:
        yield "notificationChannels", f"at most {_MOST_CHANNELS} are allowed"
    # https://docs.cloud.google.com/monitoring/promql/create-promql-alerts
    yield from _multiple(inputs, f"{_PROMQL}.duration", 60)
    yield from _multiple(inputs, f"{_PROMQL}.evaluationInterval", 30)
    # https://docs.cloud.google.com/logging/docs/alerting/log-based-alerts
    rate = [*at(inputs, "alertStrategy.notificationRateLimit.period")]
    by_log, by_query = [*objects(inputs, _LOG)], [*objects(inputs, _PROMQL)]
    if by_log and not rate:
        yield "alertStrategy", "a condition on logs needs notificationRateLimit"
    if rate and not by_log:
        yield "alertStrategy.notificationRateLimit", "is only for conditions on logs"
    if by_log and (by_query or len(by_log) > 1):
        yield "conditions", "a condition on logs must be the only one"


def _multiple(inputs: Inputs, path: str, unit: int) -> Iterator[Problem]:
    for text in texts(inputs, path):
        seconds = _SECONDS.fullmatch(text)
        if not seconds or int(seconds[1]) % unit:
            yield path, f"{text!r} is not a multiple of {unit}s"


def _channel(inputs: Inputs) -> Iterator[Problem]:
    """Only e-mail is checked, since the stacks have no other channel."""
    if inputs.get("type") != "email":
        return
    for address in texts(inputs, "labels.email_address"):
        if not _EMAIL.fullmatch(address):
            yield "labels", f"{address!r} is no e-mail address"


def _loses_only(old: str, new: str) -> bool:
    """Whether a dashboard only loses properties, which the provider does not see.

    `monitoringDashboardDiffSuppress` in google-beta/services/monitoring/resource_monitoring_dashboard.go.
    """
    try:
        return _kept(json.loads(old), json.loads(new)) == json.loads(new)
    except ValueError:
        return False


def _kept(old: Any, new: Any) -> Any:
    """The old value without what the new one does not state."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _kept(old[key], new[key]) for key in old.keys() & new.keys()}
    if isinstance(old, list) and isinstance(new, list):
        return [_kept(*pair) for pair in zip(old, new, strict=False)] + old[len(new) :]
    return old


DASHBOARD: Final = _record(
    type="gcp:monitoring/dashboard:Dashboard",
    id="projects/{number}/dashboards/{digits}",
    replaced_by="project",
    same_when={"dashboardJson": _loses_only},
    # `resourceMonitoringDashboardUpdate` sends the etag of the state.
    versioned=True,
    rules=(_dashboard,),
    listing=_listing(
        title="dashboard",
        api="monitoring.v1",
        collection="projects.dashboards",
        gcloud="monitoring dashboards delete {name}",
    ),
    permissions=verbs("monitoring.dashboards", "create", "delete", "get", "update"),
    role="roles/monitoring.dashboardEditor",
)

CHANNEL: Final = _record(
    type="gcp:monitoring/notificationChannel:NotificationChannel",
    id="projects/{project}/notificationChannels/{digits}",
    outputs={"name": "{id}"},
    labels="userLabels",
    replaced_by="project",
    rules=(_channel,),
    listing=_listing(
        title="notification channel",
        api="monitoring.v3",
        collection="projects.notificationChannels",
        gcloud="beta monitoring channels delete {name}",
    ),
    permissions=verbs("monitoring.notificationChannels", "create", "delete", "get", "update"),
    role="roles/monitoring.notificationChannelEditor",
)

ALERT_POLICY: Final = _record(
    type="gcp:monitoring/alertPolicy:AlertPolicy",
    id="projects/{project}/alertPolicies/{digits}",
    outputs={"name": "{id}"},
    labels="userLabels",
    replaced_by="project",
    references={"notificationChannels[]": CHANNEL.type},
    holds=(CHANNEL.type,),
    defaults={"documentation.mimeType": "text/markdown"},
    rules=(_policy,),
    listing=_listing(
        title="alerting policy",
        api="monitoring.v3",
        collection="projects.alertPolicies",
        gcloud="monitoring policies delete {name}",
    ),
    permissions=verbs("monitoring.alertPolicies", "create", "delete", "get", "update"),
    # An alert on a log needs a second role (assumption log-alert-role).
    role="roles/monitoring.alertPolicyEditor",
)
