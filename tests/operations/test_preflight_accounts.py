"""Service accounts that exist before the stack: preflight tells what they lack."""

import pytest

from cloud.services import iam
from operations.checks.project import needed
from operations.findings import Level
from tests.neutral_stacks import NEUTRAL
from tests.operations.changes import Change, assert_told, failing, nothing
from tests.operations.conftest import Check
from tests.operations.good_project import ACCOUNTS, GoodProject
from tests.operations.google_server import NOT_FOUND, REFUSED
from tests.operations.planned import IMAGE, planned

OK, PROBLEM, UNKNOWN = Level.FINE, Level.PROBLEM, Level.UNKNOWN
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


def test_nobody_needs_the_right_to_make_accounts_or_to_act_as_all_of_them() -> None:
    of_accounts = {*iam.ACT_AS, "iam.serviceAccounts.create", "resourcemanager.projects.setIamPolicy"}
    own = f"imageUri={IMAGE}"
    assert of_accounts <= needed(planned(NEUTRAL, own)).keys()
    assert not of_accounts & needed(planned(NEUTRAL, own, f"accounts.nodes={NODES}")).keys()
