"""A key and a topic of the user's: preflight tells what they lack, and names each grant."""

from typing import Any

import pytest

from cloud.services.kms import AGENTS, ENCRYPTER
from operations.findings import Level
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.changes import Change, assert_told, failing, nothing
from tests.operations.conftest import Check
from tests.operations.good_project import GKE_AGENT, KMS, KMS_KEY, PUBSUB, GoodProject
from tests.operations.google_server import NOT_FOUND, REFUSED
from tests.operations.planned import PROJECT

OK, WARNING, PROBLEM, UNKNOWN = Level.FINE, Level.WARNING, Level.PROBLEM, Level.UNKNOWN
OF_KEYS = "cloudkms.projects.locations.keyRings.cryptoKeys"
ON_GKE, ON_RUN = f"{NEUTRAL} kmsKey={KMS_KEY}", f"{NEUTRAL_RUN} kmsKey={KMS_KEY}"
CHANGES: list[tuple[str, Change, Level, str]] = [
    (ON_GKE, nothing, OK, "key stacks encrypts, and Google's accounts may use it"),
    (ON_RUN, nothing, OK, "key stacks encrypts, and Google's accounts may use it"),
    (ON_GKE, failing(KMS, f"{OF_KEYS}.get", NOT_FOUND), PROBLEM, "pulumi config set kmsKey KEY --stack neut"),
    (ON_GKE, failing(KMS, f"{OF_KEYS}.get", REFUSED), PROBLEM, "ask its owner for roles/cloudkms.viewer"),
    (ON_GKE, lambda it: it.key(state="DESTROY_SCHEDULED"), PROBLEM, "of key stacks is DESTROY_SCHEDULED"),
    (ON_GKE, lambda it: it.key(purpose="ASYMMETRIC_SIGN"), PROBLEM, "key stacks is for ASYMMETRIC_SIGN"),
    (
        ON_GKE,
        lambda it: it.key("compute-system"),
        PROBLEM,
        "gcloud kms keys add-iam-policy-binding stacks --keyring llm --location us-central1 --project "
        "keys-project --member serviceAccount:service-123456789012@compute-system.iam.gserviceaccount.com "
        f"--role {ENCRYPTER}",
    ),
    (ON_RUN, lambda it: it.key("serverless-robot-prod"), PROBLEM, "serverless-robot-prod"),
    (ON_RUN, lambda it: it.key("gs-project-accounts"), PROBLEM, "gs-project-accounts"),
    # What the stack does not have is not asked for.
    (ON_RUN, lambda it: it.key("compute-system", "container-engine-robot"), OK, "key stacks encrypts"),
    (ON_GKE, lambda it: it.key("serverless-robot-prod"), OK, "key stacks encrypts"),
]


@pytest.mark.parametrize(("stack", "change", "level", "words"), CHANGES)
def test_what_the_key_lacks_is_told_with_its_remedy(
    stack: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(stack, "key", change, level, words, good, check)


def test_a_policy_that_is_not_open_is_no_refusal(good: GoodProject, check: Check) -> None:
    plan = good.plan(*ON_GKE.split())
    good.server.fail(KMS, f"{OF_KEYS}.getIamPolicy", REFUSED)
    results = check(plan, "key")
    accounts = {agent for agents in AGENTS.values() for agent in agents if "serverless" not in agent}
    assert len(results) == len(accounts)
    assert {finding.level for finding in results} == {UNKNOWN}
    assert all("gcloud kms keys add-iam-policy-binding" in finding.remedy for finding in results)


TOPIC = ("securityBulletins=bulletins",)


@pytest.mark.parametrize(
    ("roles", "level", "words"),
    [
        ([], OK, "topic bulletins exists"),
        (["container.serviceAgent"], OK, "topic bulletins exists"),
        (["container.serviceAgent", "logging.viewer"], OK, "topic bulletins exists"),
        (["logging.viewer"], WARNING, f"topics add-iam-policy-binding bulletins --project {PROJECT}"),
    ],
)
def test_a_topic_that_gke_cannot_write_to_is_told_with_the_grant(
    roles: list[str], level: Level, words: str, good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL, *TOPIC)
    more: dict[str, Any] = {role: [f"serviceAccount:{GKE_AGENT}"] for role in roles}
    good.accounts(**more)
    (finding,) = check(plan, "topic")
    assert finding.level is level
    assert words in f"{finding.what} {finding.remedy}"


def test_a_role_on_the_topic_itself_is_enough(good: GoodProject, check: Check) -> None:
    plan = good.plan(NEUTRAL, *TOPIC)
    good.accounts(**{"logging.viewer": [f"serviceAccount:{GKE_AGENT}"]})
    binding = {"role": "roles/pubsub.publisher", "members": [f"serviceAccount:{GKE_AGENT}"]}
    good.server.plant(PUBSUB, "pubsub.projects.topics.getIamPolicy", {"bindings": [binding]})
    assert [finding.level for finding in check(plan, "topic")] == [OK]


def test_a_topic_that_is_not_in_the_stacks_project_is_told(good: GoodProject, check: Check) -> None:
    plan = good.plan(NEUTRAL, *TOPIC)
    good.server.fail(PUBSUB, "pubsub.projects.topics.get", NOT_FOUND)
    (finding,) = check(plan, "topic")
    assert (finding.level, finding.what) == (PROBLEM, f"project {PROJECT} has no topic bulletins")
    assert finding.remedy == f"gcloud pubsub topics create bulletins --project {PROJECT}"


def test_a_topic_that_nobody_may_see_is_no_refusal(good: GoodProject, check: Check) -> None:
    plan = good.plan(NEUTRAL, *TOPIC)
    good.server.fail(PUBSUB, "pubsub.projects.topics.get", REFUSED)
    assert [finding.level for finding in check(plan, "topic")] == [UNKNOWN]


def test_a_stack_without_the_setting_is_not_asked_for_a_topic(good: GoodProject, check: Check) -> None:
    assert check(good.plan(NEUTRAL), "topic") == []
