"""The dashboard of every stack, the alerts for an address, and the limit of a run that does nothing."""

import json

import pytest

from components.monitoring.monitoring import ALERTS, DASHBOARDS
from tests import plans
from tests.prometheus import charts
from tests.stacks.configuration import problems

EMAIL = "somebody@example.com"
LIST = {"capacity_type": '["reservation", "spot"]', "capacity_zone": "us-central1-b"}
# Every one of them has a dashboard.
WITH_ALERTS = plans.stacks_with("alertEmail")
# One that trains.
TRAINING = plans.stacks_with("idleMinutes")[0]
ON_CLOUD_RUN = {"execution-failed", "instances-idle"}
ON_GKE = {"accelerators-idle", "job-failed", "pods-pending"}


def alerts(stack: str, **settings: str) -> set[str]:
    plan = plans.shipped(stack, alertEmail=EMAIL, **settings)
    return {policy.name.removeprefix(f"{stack}-") for policy in plans.of_type(plan, ":AlertPolicy")}


@pytest.mark.parametrize("stack", WITH_ALERTS)
def test_without_an_address_there_is_a_dashboard_and_no_alert(stack: str) -> None:
    plan = plans.shipped(stack)
    assert charts(plan)
    assert not plans.of_type(plan, ":AlertPolicy") + plans.of_type(plan, ":NotificationChannel")


@pytest.mark.parametrize("stack", WITH_ALERTS)
def test_an_address_gets_the_alerts_of_its_stack(stack: str) -> None:
    plan = plans.shipped(stack, alertEmail=EMAIL)
    channel = plans.only(plan, ":NotificationChannel").inputs
    assert (channel["type"], channel["labels"]) == ("email", {"email_address": EMAIL})
    expected = ON_GKE if plans.clusters(plan) else ON_CLOUD_RUN
    assert alerts(stack) == expected | ({"queue-pending"} if plans.of_type(plan, ":ClusterQueue") else set())
    for policy in plans.of_type(plan, ":AlertPolicy"):
        assert policy.inputs["userLabels"]["stack"] == stack
        assert f"python -m operations status --stack {stack}" in policy.inputs["documentation"]["content"]


def test_every_file_of_charts_and_alerts_belongs_to_a_stack() -> None:
    wanted = [(stack, {}) for stack in WITH_ALERTS]
    # Several nodes from a list of capacities wait in a queue.
    queued = plans.stacks_with("alertEmail", *plans.keys(LIST))[0]
    wanted.append((queued, {**LIST, **plans.known_settings(queued, nodes="2")}))
    titles = {title for stack, settings in wanted for title in charts(plans.shipped(stack, **settings))}
    for file in DASHBOARDS.glob("*.yaml"):
        assert [title for title in titles if f"title: {title}\n" in file.read_text()], file.name
    assert {file.stem for file in ALERTS.glob("*.yaml")} == {
        name for stack, settings in wanted for name in alerts(stack, **settings)
    }


@pytest.mark.parametrize("address", ["somebody", "a b@example.com", "a@b"])
def test_what_is_no_address_is_refused(address: str) -> None:
    (problem,) = problems({"llm-stacks:alertEmail": address})
    assert problem.startswith("alertEmail: ") and "an e-mail address" in problem


@pytest.mark.parametrize(
    ("minutes", "option"), [("", "--idle-minutes=60"), ("15", "--idle-minutes=15"), ("0", None)]
)
def test_the_trainer_gets_its_limit_unless_it_is_off(minutes: str, option: str | None) -> None:
    settings = {"idleMinutes": minutes} if minutes else {}
    command = json.dumps(plans.training(plans.shipped(TRAINING, **settings)).inputs)
    assert (option in command) if option else "--idle-minutes" not in command


def test_a_limit_that_ends_a_run_while_it_loads_is_refused() -> None:
    assert problems({"llm-stacks:idleMinutes": "5"}) == [
        "idleMinutes: a run may need 5 minutes to load its model; set 15 or more, or 0 for no limit"
    ]
