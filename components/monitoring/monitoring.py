"""What a stack's user sees of it in Cloud Monitoring: a dashboard, and alerts that come by e-mail."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_gcp as gcp
import yaml

from components.base.component import Args, Component

# Each file is a list of charts that belong together: a title, a unit, and queries in PromQL by their legend.
DASHBOARDS: Final = Path(__file__).parent / "dashboards"
# Each file is an alert: a query in PromQL and the minutes for which it must hold, or a filter of the log.
ALERTS: Final = Path(__file__).parent / "alerts"

_HOLE: Final = re.compile(r"\$\{(\w+)\}")
_COLUMNS: Final = 12
_WIDTH, _HEIGHT = 6, 4
# A chart shows a point a minute at most, and an alert may be a minute late.
_EVALUATION: Final = "60s"
# For a condition on the log Google asks how often at most it may notify.
_RATE: Final = "300s"
_AUTO_CLOSE: Final = "86400s"

Names = Mapping[str, pulumi.Input[str]]


class MonitoringArgs(Args):
    """Arguments of `Monitoring`.

    Args:
        title: Title of the dashboard and start of the alerts' titles.
        labels: Labels of the dashboard and the alerts.
        charts: Names of files in `DASHBOARDS`, in the order of their charts.
        alerts: Names of files in `ALERTS`.
        names: A value for each hole of the files, such as the name of the `cluster`.
        email: Address that gets the alerts. Without it there are none, since nobody would be told.
        status: Command that shows what the stack is doing, for the e-mail.
    """

    project: pulumi.Input[str]
    title: str
    labels: Mapping[str, str]
    charts: Sequence[str]
    alerts: Sequence[str]
    names: Names
    email: str | None
    status: str


class Monitoring(Component[MonitoringArgs]):
    """A dashboard. With an address, alerts and the channel that sends them.

    Attributes:
        dashboard: Address of the dashboard in the console.
    """

    apis = ("monitoring.googleapis.com",)

    def _declare(self, name: str, args: MonitoringArgs) -> None:
        charts = [chart for file in args.charts for chart in _read(DASHBOARDS / f"{file}.yaml")]
        dashboard = gcp.monitoring.Dashboard(
            f"{name}-dashboard",
            project=args.project,
            dashboard_json=pulumi.Output.all(**args.names).apply(
                lambda known: json.dumps(_dashboard(args.title, args.labels, charts, known), indent=2)
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.dashboard: pulumi.Output[str] = pulumi.Output.all(dashboard.id, dashboard.project).apply(
            lambda ids: (
                f"https://console.cloud.google.com/monitoring/dashboards/builder/"
                f"{ids[0].rpartition('/')[2]}?project={ids[1]}"
            )
        )
        if not args.email:
            return
        channel = gcp.monitoring.NotificationChannel(
            f"{name}-email",
            project=args.project,
            display_name=f"{args.title}: {args.email}",
            type="email",
            labels={"email_address": args.email},
            user_labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )
        for file in args.alerts:
            self._alert(name, args, file, channel)

    def _alert(
        self, name: str, args: MonitoringArgs, file: str, channel: gcp.monitoring.NotificationChannel
    ) -> None:
        alert = _read(ALERTS / f"{file}.yaml")
        by_log = "log" in alert
        rate = gcp.monitoring.AlertPolicyAlertStrategyNotificationRateLimitArgs(period=_RATE)
        gcp.monitoring.AlertPolicy(
            f"{name}-{file}",
            project=args.project,
            display_name=f"{args.title}: {alert['title']}",
            combiner="OR",
            severity=alert["severity"],
            conditions=[_condition(alert, args.names)],
            alert_strategy=gcp.monitoring.AlertPolicyAlertStrategyArgs(
                auto_close=_AUTO_CLOSE, notification_rate_limit=rate if by_log else None
            ),
            documentation=gcp.monitoring.AlertPolicyDocumentationArgs(
                mime_type="text/markdown",
                subject=f"{args.title}: {alert['title']}",
                # The address is not known before the dashboard exists, so it is no part of the text.
                content=f"{alert['means']}\n\n    {args.status}",
                links=[
                    gcp.monitoring.AlertPolicyDocumentationLinkArgs(
                        display_name="Dashboard", url=self.dashboard
                    )
                ],
            ),
            notification_channels=[channel.id],
            user_labels=args.labels,
            opts=pulumi.ResourceOptions(parent=self),
        )


def _condition(alert: Mapping[str, Any], names: Names) -> gcp.monitoring.AlertPolicyConditionArgs:
    def filled(text: str) -> pulumi.Output[str]:
        return pulumi.Output.all(**names).apply(lambda known: _filled(text, known))

    if "log" in alert:
        return gcp.monitoring.AlertPolicyConditionArgs(
            display_name=alert["title"],
            condition_matched_log=gcp.monitoring.AlertPolicyConditionConditionMatchedLogArgs(
                filter=filled(alert["log"]),
                label_extractors={"job": "EXTRACT(jsonPayload.involvedObject.name)"},
            ),
        )
    return gcp.monitoring.AlertPolicyConditionArgs(
        display_name=alert["title"],
        condition_prometheus_query_language=(
            gcp.monitoring.AlertPolicyConditionConditionPrometheusQueryLanguageArgs(
                query=filled(alert["query"]),
                duration=f"{alert['minutes'] * 60}s",
                evaluation_interval=_EVALUATION,
                # Google knows a metric once something has reported it, which is later than this.
                disable_metric_validation=True,
            )
        ),
    )


def _dashboard(
    title: str, labels: Mapping[str, str], charts: Sequence[Mapping[str, Any]], names: Mapping[str, str]
) -> dict[str, Any]:
    """A dashboard as Google's API takes it. It has no field that the API would leave out of its answer.

    https://docs.cloud.google.com/monitoring/api/ref_dashboards/rest/v1/projects.dashboards
    """
    return {
        "displayName": title,
        "labels": dict(labels),
        "mosaicLayout": {"columns": _COLUMNS, "tiles": list(_tiles(charts, names))},
    }


def _tiles(charts: Sequence[Mapping[str, Any]], names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    per_row = _COLUMNS // _WIDTH
    for number, chart in enumerate(charts):
        places = {"xPos": number % per_row * _WIDTH, "yPos": number // per_row * _HEIGHT}
        lines = [
            _line(legend, _filled(query, names), chart.get("unit"))
            for legend, query in chart["queries"].items()
        ]
        yield {
            # The API leaves zeros out.
            **{place: value for place, value in places.items() if value},
            "width": _WIDTH,
            "height": _HEIGHT,
            "widget": {"title": chart["title"], "xyChart": {"dataSets": lines}},
        }


def _line(legend: str, query: str, unit: str | None) -> dict[str, Any]:
    unit_of_query = {"unitOverride": unit} if unit else {}
    legend_of_line = {"legendTemplate": legend} if legend else {}
    return {
        "plotType": "LINE",
        "timeSeriesQuery": {"prometheusQuery": query, **unit_of_query},
        **legend_of_line,
    }


def _read(path: Path) -> Any:
    return yaml.load(path.read_text(), yaml.CSafeLoader)


def _filled(text: str, names: Mapping[str, str]) -> str:
    """A query with its holes filled. Raises KeyError if a name is missing."""
    return _HOLE.sub(lambda hole: names[hole[1]], text)
