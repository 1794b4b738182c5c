"""Service accounts that exist before the stack: preflight tells what they lack."""

import pytest

from cloud.services import iam
from operations.checks.project import needed
from operations.findings import Level
from tests.neutral_stacks import NEUTRAL
from tests.operations.changes import Change, assert_told, failing, nothing
from tests.operations.conftest import Check
from tests.operations.good_project import ACCOUNTS, APIS_AGENT, GoodProject
from tests.operations.google_server import NOT_FOUND, REFUSED
from tests.operations.planned import IMAGE, planned

OK, WARNING, PROBLEM, UNKNOWN = Level.FINE, Level.WARNING, Level.PROBLEM, Level.UNKNOWN
NODES = ACCOUNTS["nodes"]
STACK = f"{NEUTRAL} accounts.nodes={NODES} imageUri={IMAGE}"
NODE_ROLE = "roles/container.defaultNodeServiceAccount"
CHANGES: list[tuple[Change, Level, str]] = [
    (nothing, OK, f"{NODES} is there for nodes"),
    (
        failing("iam.v1", "iam.projects.serviceAccounts.get", NOT_FOUND),
        PROBLEM,
        f"there is no service account {NODES}\nrun `pulumi up` of the bootstrap",
    ),
    (lambda it: it.accounts(disabled=True), PROBLEM, f"gcloud iam service-accounts enable {NODES}"),
    (
        lambda it: it.server.plant("iam.v1", "iam.projects.serviceAccounts.testIamPermissions", {}),
        PROBLEM,
        f"you may not act as {NODES}",
    ),
    (
        lambda it: it.accounts(NODE_ROLE),
        PROBLEM,
        f"projects add-iam-policy-binding my-project --member serviceAccount:{NODES} --role {NODE_ROLE}",
    ),
    (
        failing("cloudresourcemanager.v3", "cloudresourcemanager.projects.getIamPolicy", REFUSED),
        UNKNOWN,
        f"you may not see whether {NODES} has {NODE_ROLE}",
    ),
]


@pytest.mark.parametrize(("change", "level", "words"), CHANGES)
def test_what_an_account_lacks_is_told_with_its_remedy(
    change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(STACK, "accounts", change, level, words, good, check)


VIEWERS = [f"user:v{number}@example.com" for number in range(7)]
DEFAULT = "serviceAccount:123456789012-compute@developer.gserviceaccount.com"
APIS = f"serviceAccount:{APIS_AGENT}"
LEGACY = "123456789012@cloudbuild.gserviceaccount.com"
POLICY = ("cloudresourcemanager.v3", "cloudresourcemanager.projects.getIamPolicy", REFUSED)
BASIC: list[tuple[Change, Level, str]] = [
    (nothing, OK, "owners, who reach everything: user:jane@example.com"),
    (lambda it: it.accounts(editor=[APIS]), OK, "owners, who reach everything"),
    (
        lambda it: it.accounts(viewer=VIEWERS),
        WARNING,
        "roles/viewer: user:v0@example.com, user:v1@example.com, user:v2@example.com, user:v3@example.com, "
        "user:v4@example.com and 2 more read every bucket: models, rows of data and the state\ngive them",
    ),
    (
        lambda it: it.accounts(editor=[APIS, DEFAULT]),
        WARNING,
        f"roles/editor: {DEFAULT} write every bucket, the state too",
    ),
    (
        lambda it: it.accounts(writer=["group:all@example.com"]),
        WARNING,
        "roles/writer: group:all@example.com write every bucket",
    ),
    (failing(*POLICY), UNKNOWN, "you may not see who has a basic role"),
]
BUILDERS: list[tuple[Change, Level, str]] = [
    (nothing, OK, "builds without an account run as 123456789012-compute@developer.gserviceaccount.com"),
    (lambda it: it.builder(""), OK, "builds without an account are refused"),
    (lambda it: it.builder(LEGACY), OK, f"run as {LEGACY}, which has no role"),
]


@pytest.mark.parametrize(("change", "level", "words"), BASIC)
def test_who_reaches_every_bucket_by_a_basic_role_is_named(
    change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(NEUTRAL, "basic roles", change, level, words, good, check)


@pytest.mark.parametrize(("change", "level", "words"), BUILDERS)
def test_the_account_of_builds_without_an_account_is_told(
    change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(NEUTRAL, "builder", change, level, words, good, check)


@pytest.mark.parametrize("seen", [True, False])
def test_cloud_builds_legacy_account_is_refused_while_it_has_a_role(
    seen: bool, good: GoodProject, check: Check
) -> None:
    plan = good.plan(NEUTRAL)
    good.builder(LEGACY)
    bindings = [
        {"role": "roles/cloudbuild.builds.builder", "members": [f"serviceAccount:{LEGACY}"]},
    ]
    good.server.plant(*POLICY[:2], {"bindings": bindings}, projectsId="my-project")
    if not seen:
        good.server.fail(*POLICY)
    (finding,) = check(plan, "builder")
    assert finding.level is PROBLEM
    assert f"run as {LEGACY}, Cloud Build's legacy account" in finding.what
    role = "roles/cloudbuild.builds.builder" if seen else "ROLE"
    assert finding.remedy.endswith(f"--member serviceAccount:{LEGACY} --role {role}")


def test_a_stack_that_builds_nothing_asks_for_no_builder(good: GoodProject, check: Check) -> None:
    assert check(good.plan(NEUTRAL, f"imageUri={IMAGE}"), "builder") == []


def test_nobody_needs_the_right_to_make_accounts_or_to_act_as_all_of_them() -> None:
    of_accounts = {*iam.ACT_AS, "iam.serviceAccounts.create", "resourcemanager.projects.setIamPolicy"}
    own = f"imageUri={IMAGE}"
    assert of_accounts <= needed(planned(NEUTRAL, own)).keys()
    assert not of_accounts & needed(planned(NEUTRAL, own, f"accounts.nodes={NODES}")).keys()
