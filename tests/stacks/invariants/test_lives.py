"""Every stack: what changes nothing, what is protected, what is left, and what its page says."""

import json
import re

import pytest

from docs_generator.pages import page_of
from engine.project import ROOT, known_stacks
from operations.previews.stack_inputs import stack_file
from tests import plans
from tests.stacks.invariants.life import Life

# Pages about the outputs of all stacks.
PAGES_OF_ALL = ("capacity.md", "troubleshooting.md")


def test_the_page_of_a_stack_names_the_outputs_that_it_has(stack: str, life: Life) -> None:
    # A stack of this list has its scenario's name, and the scenario's page.
    if not page_of(stack).exists():
        pytest.skip("the walkthrough's server comes without a page")
    page = page_of(stack).read_text()
    read = set(re.findall(r"pulumi stack output (\w+)", page))
    assert read <= life.outputs.keys()
    pages = page + "".join((ROOT / "docs" / name).read_text() for name in PAGES_OF_ALL)
    assert not [name for name in life.outputs.keys() - read if f"`{name}`" not in pages]


def test_changing_nothing_changes_nothing(life: Life) -> None:
    assert life.second_changes == 0


def test_a_bucket_is_protected_without_force_destroy(life: Life) -> None:
    protected = [resource for resource in life.plan.resources if resource.options.get("protect")]
    buckets = [
        bucket
        for bucket in plans.of_type(life.plan, "storage/bucket:Bucket")
        if not bucket.inputs.get("forceDestroy")
    ]
    assert {bucket.name for bucket in buckets} <= {resource.name for resource in protected}
    assert life.survived is (True if protected else None)


def test_what_a_run_has_written_can_be_restored_for_a_week_or_not_at_all(life: Life) -> None:
    """Each stack chooses by the size of its checkpoints: tests/inventories/ has what it has chosen."""
    buckets = [bucket for bucket in life.plan.resources if bucket.options.get("protect")]
    kept = [bucket.inputs["softDeletePolicy"]["retentionDurationSeconds"] for bucket in buckets]
    assert set(kept) <= {0, 7 * 24 * 3600}


def test_only_the_stack_for_development_deletes_its_bucket() -> None:
    deleting = [stack for stack in known_stacks() if stack_file(stack).get("forceDestroy")]
    assert deleting == ["dev"]


def test_everything_is_destroyed_with_it(life: Life) -> None:
    assert life.left == []


def test_an_output_opens_the_dashboard_of_the_stack(life: Life) -> None:
    dashboards = plans.of_type(life.standing, ":Dashboard")
    if not dashboards:
        pytest.skip("the walkthrough's scenarios have no dashboard")
    (dashboard,) = dashboards
    assert re.fullmatch(
        r"https://console\.cloud\.google\.com/monitoring/dashboards/builder/\d+\?project=rehearsal-project",
        life.outputs["openMonitoring"],
    )
    assert json.loads(dashboard.inputs["dashboardJson"])["labels"]
