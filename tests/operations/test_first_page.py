"""docs/first-run.md: what it has a newcomer type is what the commands after it need."""

import re

import pytest

from engine.project import ROOT, known_stacks
from operations import preflight
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject

PAGE = (ROOT / "docs" / "first-run.md").read_text()
# On in every project. https://docs.cloud.google.com/service-usage/docs/enabled-service
ALWAYS_ON = {"serviceusage.googleapis.com"}


def enabled() -> set[str]:
    (command,) = re.findall(r"^gcloud services enable ((?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
    return set(re.findall(r"[a-z]+\.googleapis\.com", command))


@pytest.mark.parametrize("stack", known_stacks())
def test_the_first_page_enables_every_api_that_preflight_asks(
    stack: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(stack)
    for topic in preflight.CHECKS:
        check(plan, topic)
    asked = {f"{call.method.partition('.')[0]}.googleapis.com" for call in good.server.calls}
    assert "compute.googleapis.com" in asked
    assert asked - ALWAYS_ON <= enabled()


def test_the_bucket_of_the_state_is_as_strict_as_that_of_the_bootstrap() -> None:
    """Nobody can make it public, no object has rights of its own, and it keeps old versions."""
    commands = re.findall(r"^gcloud storage buckets ((?:.*\\\n)*.*)$", PAGE, re.MULTILINE)
    flags = {word for command in commands for word in command.split() if word.startswith("--")}
    assert {"--uniform-bucket-level-access", "--public-access-prevention", "--versioning"} <= flags


def test_the_first_page_sets_project_apis_and_credentials_before_anything_that_needs_them() -> None:
    steps = (
        *("gcloud auth login", "gcloud config set project", "gcloud services enable"),
        *("gcloud auth application-default login", "set-quota-project", "gcloud storage buckets create"),
        *("gcloud kms keyrings create", "gcloud kms keys create", "keys add-iam-policy-binding"),
        *("pulumi stack init", "pulumi config set gcp:project", "operations preflight", "pulumi up\n"),
    )
    typed = "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
    places = [typed.index(step) for step in steps]
    assert places == sorted(places)
    assert "cloudkms.googleapis.com" in enabled()
