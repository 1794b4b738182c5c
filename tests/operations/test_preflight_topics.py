"""Single topics of preflight, in projects that differ in more than one answer of a server."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cloud.services.storage import BUCKET
from engine.errors import EngineError
from operations import preflight
from operations.checks.hub import read_token, repositories
from operations.findings import Finding, Level
from operations.state import Resource, State
from stacks.settings.cluster import Cluster
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.conftest import HF_TOKEN, Check
from tests.operations.good_project import WHOAMI, GoodProject, access
from tests.operations.planned import IMAGE, planned

OK, WARNING, PROBLEM, UNKNOWN = Level.FINE, Level.WARNING, Level.PROBLEM, Level.UNKNOWN


def test_where_the_stacks_own_token_is_not_to_be_had_the_shells_is_judged_and_called_that(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = good.plan(NEUTRAL)
    monkeypatch.setattr("operations.checks.hub.read_token", read_token)
    monkeypatch.setenv("HF_TOKEN", f"{HF_TOKEN}\r\n")
    missing, whose, *repositories = check(plan, "Hugging Face")
    assert (missing.level, missing.what) == (UNKNOWN, "the stack has no hfToken")
    assert "until then preflight checks HF_TOKEN of the environment" in missing.remedy
    assert whose.what.startswith("HF_TOKEN of the environment is ")
    assert len(repositories) == 3
    assert good.server.shown[WHOAMI] == [f"Bearer {HF_TOKEN}"]
    monkeypatch.delenv("HF_TOKEN")
    assert check(plan, "Hugging Face") == [missing]


def test_a_zone_without_the_machines_of_its_pool_is_told(good: GoodProject, check: Check) -> None:
    plan = good.plan(NEUTRAL)
    types = [{"name": name, "zone": "us-central1-c"} for name in ("g2-standard-12", "e2-standard-4")]
    items = {"zones/us-central1-c": {"machineTypes": types}}
    good.server.plant("compute.v1", "compute.machineTypes.aggregatedList", {"items": items})
    results = [item for item in check(plan, "places") if item.level is PROBLEM]
    assert [item.what.partition(": ")[2] for item in results] == [
        "no g2-standard-12 in us-central1-a",
        "no e2-standard-4 in us-central1-a",
    ]
    assert results[0].remedy == ("it is in us-central1-c: pulumi config set zones VALUE --stack neutral")


def test_a_region_in_which_cloud_run_has_no_gpus_for_everybody_is_told(
    good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL_RUN)
    assert [item.level for item in check(plan, "places")] == [OK]
    good.server.plant("compute.v1", "compute.regions.get", {"status": "UP"}, region="europe-north1")
    (finding,) = [
        item for item in check(replace(plan, region="europe-north1"), "places") if item.level is WARNING
    ]
    assert "europe-west4, asia-southeast1, and as far as we know not in europe-north1" in finding.what
    assert finding.remedy.startswith("pulumi config set gcp:region us-central1 --stack neutral-run")


def test_a_bucket_that_a_new_name_replaces_is_told_before_it_goes_with_its_checkpoints(
    good: GoodProject, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = good.plan(NEUTRAL, "bucketName=my-bucket", "forceDestroy=true")
    (renamed,) = (item for item in plan.of_type(BUCKET.type) if item.inputs.get("name") == "my-bucket")
    assert not [item for item in check(plan, "names") if item.level is WARNING]

    def up(bucket: str) -> Finding | None:
        state = State(resources=(Resource(type=renamed.type, id=bucket, name=renamed.name, outputs={}),))
        monkeypatch.setattr("operations.checks.names.Backend", lambda _: SimpleNamespace(now=lambda: state))
        return next((item for item in check(plan, "names") if item.level is WARNING), None)

    finding = up("neutral-bucket-0a1b2c3")
    assert finding and "neutral-bucket-0a1b2c3 of this stack is up: `pulumi up` deletes it" in finding.what
    assert "before it makes my-bucket" in finding.what
    assert "pulumi config rm bucketName --stack neutral" in finding.remedy
    assert up("my-bucket") is None
    # Without a backend there is nothing to lose.
    monkeypatch.setattr("operations.checks.names.Backend", lambda _: SimpleNamespace(now=not_there))
    assert not [item for item in check(plan, "names") if item.level is WARNING]


def not_there() -> State:
    raise EngineError("pulumi stack export: no stack named 'neutral' found")


def test_what_the_program_warns_of_stands_in_the_first_line(check: Check) -> None:
    plan = planned(NEUTRAL, "capacity.type=spot")
    (finding,) = check(plan, "program")
    assert finding.level is WARNING
    assert finding.what.startswith("capacity.type spot: when Google takes a node back")
    assert next(iter(preflight.CHECKS)) == "program"


def test_a_run_without_a_limit_is_a_warning(check: Check) -> None:
    alone = {"llm-stacks:scenario": "neutral"}
    (results,) = check(replace(planned(NEUTRAL), configuration=alone), "run limit")
    assert results.level is WARNING and "maxRunHours is not set" in results.what
    (fine,) = check(planned(NEUTRAL, "maxRunHours=4"), "run limit")
    assert fine.what == "a run may train for 4 hours"


def test_a_scenario_without_runs_is_asked_for_no_limit(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    server = SimpleNamespace(Settings=Cluster)
    monkeypatch.setattr("stacks.scenario_modules", lambda: {NEUTRAL: server})
    assert not check(planned(NEUTRAL), "run limit")


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        (NEUTRAL_RUN, {"google/gemma-3-1b-it", "KomeijiForce/Text2Emoji"}),
        # A small one is trained, a large one served.
        (
            NEUTRAL,
            {"google/gemma-3-4b-it", "google/gemma-3-12b-it", "b-mc2/sql-create-context"},
        ),
    ],
)
def test_what_is_asked_of_the_hub_is_what_the_plan_trains_and_serves(stack: str, names: set[str]) -> None:
    assert {name for _, name, _ in repositories(planned(stack))} == names


@pytest.mark.parametrize("stack", ["tpu-maxtext"])
def test_a_stack_without_a_token_is_judged_without_that_of_the_environment(
    stack: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(stack, f"imageUri={IMAGE}", "recipe=llama3-8b-fineweb-edu")
    assert [item.level for item in check(plan, "Hugging Face")] == [OK]
    assert good.server.shown[access("dataset", "HuggingFaceFW/fineweb-edu")] == [None]
