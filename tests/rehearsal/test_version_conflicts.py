"""An update of what somebody else has changed meanwhile is refused, where the provider sends a version."""

import json

import pulumi
import pulumi_gcp as gcp
import pytest

from cloud import records
from cloud.services import monitoring
from components.base.remedies import what_to_do
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests.rehearsal.small import SETTINGS


class Charts:
    """A program with a dashboard of this title."""

    def __init__(self) -> None:
        self.title = "first"

    def text(self, title: str) -> str:
        return json.dumps({"displayName": title, "mosaicLayout": {"columns": 48, "tiles": []}})

    def __call__(self) -> None:
        api = gcp.projects.Service("monitoring", service="monitoring.googleapis.com")
        awaited = pulumi.ResourceOptions(depends_on=[api])
        gcp.monitoring.Dashboard("charts", dashboard_json=self.text(self.title), opts=awaited)


def test_an_up_over_a_dashboard_that_somebody_edited_needs_a_refresh_and_says_so() -> None:
    program = Charts()
    with Rehearsal("small", SETTINGS, program) as rehearsal:
        rehearsal.up()
        (dashboard,) = rehearsal.cloud.of_type(monitoring.DASHBOARD.type)
        dashboard.inputs = {**dashboard.inputs, "dashboardJson": program.text("edited in the console")}
        assert not rehearsal.preview().changed
        program.title = "second"
        assert rehearsal.preview().changed == 1
        with pytest.raises(RehearsalError, match="etag") as failure:
            rehearsal.up()
        remedy = what_to_do(monitoring.DASHBOARD.type, str(failure.value), "small")
        assert "changed the dashboard since" in remedy and "`pulumi up --refresh`" in remedy
        rehearsal.refresh()
        rehearsal.up()
        (dashboard,) = rehearsal.cloud.of_type(monitoring.DASHBOARD.type)
        assert "second" in dashboard.inputs["dashboardJson"]
        assert not rehearsal.preview().changed and not rehearsal.refresh().changed


def test_dashboards_alone_have_versions() -> None:
    assert [record.type for record in records.every().values() if record.versioned] == [
        monitoring.DASHBOARD.type
    ]
