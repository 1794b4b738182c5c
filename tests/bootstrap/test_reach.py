"""What the pipelines' identities could reach, computed from their bindings. A test fails when it grows.

Some powers give their holder another account. Its bindings are followed too, and so on.
"""

import re
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from engine.project import ROOT, known_stacks
from tests.bootstrap.declared import PROJECT_ROLE, Declared
from tests.inventory import written

DEPLOYER, PREVIEWER = "llm-deploy-account", "llm-preview-account"
# What a role lets its holder do, by kind of resource. A role that is missing here fails the test: say here
# what it reaches.
POWERS = {
    "roles/artifactregistry.admin": {"repository": "own"},
    "roles/cloudbuild.builds.editor": {"build": "run"},
    "roles/cloudkms.cryptoKeyEncrypterDecrypter": {"key": "use"},
    "roles/compute.networkAdmin": {"network": "own"},
    "roles/compute.viewer": {"machine": "see"},
    "roles/container.admin": {"cluster": "own"},
    "roles/iam.serviceAccountUser": {"account": "act as"},
    "NAME-OF-llm-log-alerts": {"log": "alert on"},
    "roles/logging.viewer": {"log": "read"},
    "roles/monitoring.alertPolicyEditor": {"alert": "own"},
    "roles/monitoring.dashboardEditor": {"dashboard": "own"},
    "roles/monitoring.notificationChannelEditor": {"channel": "own"},
    "roles/run.admin": {"service": "own"},
    "roles/secretmanager.admin": {"secret": "own"},
    "roles/serviceusage.serviceUsageAdmin": {"API": "switch"},
    "roles/storage.admin": {"bucket": "own"},
    "roles/storage.objectAdmin": {"bucket": "write"},
    # The preview identity's.
    "roles/artifactregistry.reader": {"repository": "read"},
    "roles/cloudkms.cryptoKeyDecrypter": {"key": "read with"},
    "roles/container.viewer": {"cluster": "see"},
    "roles/iam.securityReviewer": {"role": "see"},
    "roles/iam.serviceAccountViewer": {"account": "see"},
    "roles/monitoring.viewer": {"alert": "see", "dashboard": "see", "channel": "see"},
    "roles/run.viewer": {"service": "see"},
    "roles/secretmanager.viewer": {"secret": "see"},
    "roles/serviceusage.serviceUsageViewer": {"API": "see"},
    "roles/storage.bucketViewer": {"bucket": "see"},
    "roles/storage.objectViewer": {"bucket": "read"},
    # Those of the stacks' accounts.
    "roles/container.defaultNodeServiceAccount": {"log": "write"},
    "roles/logging.logWriter": {"log": "write"},
    "roles/serviceusage.serviceUsageConsumer": {"API": "use"},
    # Those of accounts that the bootstrap did not make.
    "roles/cloudbuild.builds.builder": {"bucket": "write", "repository": "write", "build": "run"},
    "roles/editor": {"bucket": "write", "account": "act as"},
}
OTHERS, LEGACY = "payroll", "Cloud Build's legacy account"
# Accounts that the bootstrap did not make, with a role in the project.
FOREIGN = {OTHERS: "roles/editor", LEGACY: "roles/cloudbuild.builds.builder"}
# Powers that run code as an account without a right to act as it. Another team's job gets other arguments
# (`run.jobs.runWithOverrides`), a pod any Kubernetes account, and a tag another image. A build may have no
# account.
RUNS_AS = {
    "own any service": {OTHERS},
    "own any cluster": {OTHERS},
    "own any repository": {OTHERS},
    "run any build": {LEGACY},
}
_BUCKET, _SECRET = "storage.googleapis.com/Bucket", "secretmanager.googleapis.com/Secret"
# Resources of a project that is shared with others: kind, type and name as conditions see them.
RESOURCES = {
    "a stack's bucket": ("bucket", _BUCKET, "projects/_/buckets/a4-ray-bucket-1a2b3c4"),
    "a stack's object": (
        "bucket",
        "storage.googleapis.com/Object",
        "projects/_/buckets/a4-ray-bucket-1a2b3c4/objects/run/model",
    ),
    "the stacks' state": ("bucket", _BUCKET, "projects/_/buckets/NAME-OF-llm-state-bucket"),
    "the bootstrap's state": ("bucket", _BUCKET, "projects/_/buckets/NAME-OF-llm-bootstrap-bucket"),
    "another team's bucket": ("bucket", _BUCKET, "projects/_/buckets/payroll"),
    "another team's object": (
        "bucket",
        "storage.googleapis.com/Object",
        "projects/_/buckets/payroll/objects/a4-ray-x",
    ),
    "a stack's secret": ("secret", _SECRET, "projects/1/secrets/dev-hugging-face-token"),
    "a stack's secret text": (
        "secret",
        "secretmanager.googleapis.com/SecretVersion",
        "projects/1/secrets/dev-wandb-key/versions/3",
    ),
    "another team's secret": ("secret", _SECRET, "projects/1/secrets/payroll"),
    "another team's secret text": (
        "secret",
        "secretmanager.googleapis.com/SecretVersion",
        "projects/1/secrets/payroll/versions/1",
    ),
    "a stack's account": ("account", "", "NAME-OF-llm-a4-ray-nodes"),
    "another team's account": ("account", "", "NAME-OF-payroll"),
    "the deploy identity itself": ("account", "", "NAME-OF-llm-deploy-account"),
    # No condition sees the name of a repository and so on.
    "any repository": ("repository", "", ""),
    "any build": ("build", "", ""),
    "any network": ("network", "", ""),
    "any machine": ("machine", "", ""),
    "any cluster": ("cluster", "", ""),
    "any log": ("log", "", ""),
    "any alert": ("alert", "", ""),
    "any dashboard": ("dashboard", "", ""),
    "any channel": ("channel", "", ""),
    "any service": ("service", "", ""),
    "any API": ("API", "", ""),
    "the state's key": ("key", "", "ID-OF-llm-state-key"),
    "roles/owner": ("role", "", ""),
    "roles/iam.serviceAccountTokenCreator": ("role", "", ""),
}
REVIEWED = {
    "own a stack's bucket",
    "own a stack's object",
    "write the stacks' state",
    "own a stack's secret",
    "own a stack's secret text",
    "act as a stack's account",
    # What a project of its own is for: clusters and services of others would be open too.
    "alert on any log",
    "own any alert",
    "own any channel",
    "own any cluster",
    "own any dashboard",
    "own any network",
    "own any repository",
    "own any service",
    "run any build",
    "switch any API",
    "read any log",
    "see any machine",
    "use the state's key",
    # By acting as a stack's account.
    "write any log",
    "use any API",
}


# What the Common Expression Language writes in another way than Python.
_AS_PYTHON = {
    "&&": "and",
    "||": "or",
    ".startsWith(": ".startswith(",
    ".endsWith(": ".endswith(",
    "resource.name.extract(": "extract(resource.name, ",
}


def extract(text: str, template: str) -> str:
    """The part of a text for which the template has a name in braces. Empty if the text is another one."""
    before, after = re.split(r"\{\w+\}", template)
    match = re.search(f"{re.escape(before)}(.*?){re.escape(after) or '$'}", text)
    return match[1] if match else ""


def holds(binding: dict[str, Any], type: str, name: str) -> bool:
    """Whether a binding's condition holds for a resource."""
    expression = (binding.get("condition") or {}).get("expression", "True")
    for theirs, ours in _AS_PYTHON.items():
        expression = expression.replace(theirs, ours)
    resource = SimpleNamespace(type=type, name=name)
    return bool(eval(expression, {"resource": resource, "extract": extract}))


def bindings_of(declared: Declared, identity: str) -> list[tuple[str, dict[str, Any]]]:
    """The bindings of an identity with the types of their resources. A foreign account has one role."""
    if identity in FOREIGN:
        return [(PROJECT_ROLE, {"role": FOREIGN[identity]})]
    return [
        (type_token, inputs)
        for type_token, _, inputs in declared.resources
        if f"serviceAccount:{identity}@" in str(inputs.get("member"))
    ]


def reached(declared: Declared, identity: str) -> set[str]:
    """What an identity may do with the resources, by its bindings on the project and on resources."""
    reach = set()
    for type_token, inputs in bindings_of(declared, identity):
        for label, (kind, type, name) in RESOURCES.items():
            targets = (inputs.get(key) for key in ("bucket", "cryptoKeyId", "serviceAccountId"))
            target = str(next(filter(None, targets), ""))
            here = type_token == PROJECT_ROLE or (target and name.endswith(target))
            power = POWERS[inputs["role"]].get(kind)
            if power and here and holds(inputs, type, name):
                reach.add(f"{power} {label}")
    return reach


def accounts_of(declared: Declared, identity: str) -> set[str]:
    """The accounts of the bootstrap as which an identity may act."""
    return {
        str(inputs["serviceAccountId"]).removeprefix("NAME-OF-")
        for type_token, inputs in bindings_of(declared, identity)
        # On the project it is a power over others' accounts, which `reached` has.
        if inputs["role"] == "roles/iam.serviceAccountUser" and type_token != PROJECT_ROLE
    }


def closure(declared: Declared, identity: str, there: Collection[str] = ()) -> set[str]:
    """What an identity reaches by itself and as every account that it can become.

    Args:
        there: The foreign accounts that exist in the project.
    """
    reach: set[str] = set()
    waiting, known = [identity], {identity}
    while waiting:
        holder = waiting.pop()
        reach |= reached(declared, holder)
        others = {account for power in reach & RUNS_AS.keys() for account in RUNS_AS[power] & set(there)}
        new = (accounts_of(declared, holder) | others) - known
        known |= new
        waiting += sorted(new)
    return reach


def test_the_deploy_identity_reaches_what_was_reviewed_and_nothing_else(declared: Declared) -> None:
    assert closure(declared, DEPLOYER) == REVIEWED


def test_it_can_become_the_stacks_accounts_alone(declared: Declared) -> None:
    accounts = declared.of_type("serviceaccount/account:Account").items()
    assert accounts_of(declared, DEPLOYER) == {name for name, inputs in accounts if "accountId" in inputs}
    assert accounts_of(declared, PREVIEWER) == set()


@pytest.mark.parametrize(
    ("there", "more"),
    [
        # Why the stacks need a project of their own.
        (
            OTHERS,
            {"act as another team's account", "write another team's bucket", "write the bootstrap's state"},
        ),
        # Why `preflight` refuses that account while it has a role.
        (LEGACY, {"write another team's object", "write the bootstrap's state", "write the stacks' state"}),
    ],
)
def test_in_a_project_with_such_an_account_it_reaches_what_the_account_reaches(
    there: str, more: set[str], declared: Declared
) -> None:
    assert more <= closure(declared, DEPLOYER, [there])


@pytest.mark.parametrize("power", RUNS_AS)
def test_each_power_that_runs_code_as_an_account_leads_there_by_itself(
    power: str, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = {power: RUNS_AS[power]}
    (account,) = RUNS_AS[power]
    monkeypatch.setitem(globals(), "RUNS_AS", edges)
    assert reached(declared, account) - REVIEWED
    assert closure(declared, DEPLOYER, [account]) == REVIEWED | reached(declared, account)
    edges.clear()
    assert closure(declared, DEPLOYER, [account]) == REVIEWED


def test_without_any_of_its_conditions_the_deploy_identity_would_reach_more(declared: Declared) -> None:
    conditions = [
        inputs for _, inputs in bindings_of(declared, DEPLOYER) if (inputs.get("condition") or {}) != {}
    ]
    assert conditions
    for bounded in conditions:
        loose = [
            (kind, name, {**inputs, "condition": None} if inputs is bounded else inputs)
            for kind, name, inputs in declared.resources
        ]
        assert closure(Declared(resources=loose), DEPLOYER) > REVIEWED, bounded["role"]


@pytest.mark.parametrize(
    "role", ["roles/iam.serviceAccountUser", "roles/storage.objectAdmin", "roles/editor"]
)
@pytest.mark.parametrize("identity", [DEPLOYER, "llm-a4-ray-nodes"])
def test_one_more_role_of_the_identity_or_of_an_account_that_it_can_become_is_seen(
    identity: str, role: str, declared: Declared
) -> None:
    member = f"serviceAccount:{identity}@my-project.iam.gserviceaccount.com"
    more = (PROJECT_ROLE, "more", {"role": role, "member": member})
    assert closure(Declared(resources=[*declared.resources, more]), DEPLOYER) > REVIEWED


def test_the_preview_identity_reads_the_stacks_state_and_changes_nothing(declared: Declared) -> None:
    reach = closure(declared, PREVIEWER, FOREIGN)
    assert {text for text in reach if not text.startswith("see ")} == {
        "read the stacks' state",
        "read with the state's key",
        "read any repository",
    }


@pytest.mark.parametrize("page", ["SECURITY.md", "docs/merge-requests.md"])
def test_what_the_deploy_identity_cannot_do_is_said_of_a_project_of_its_own(page: str) -> None:
    sentences = re.split(r"(?<=[.|]) ", " ".join((ROOT / page).read_text().split()))
    matches = [
        text for text in sentences if re.search(r"cannot act as another|acts? as the stacks' ser", text)
    ]
    assert matches
    assert not [
        text for text in matches if "in a project of its own" not in text.lower() and "reads" not in text
    ]


def test_a_right_on_the_project_such_as_creating_a_bucket_is_not_bounded(declared: Declared) -> None:
    for role in ("roles/storage.admin", "roles/secretmanager.admin"):
        (binding,) = [entry for entry in declared.of_type(PROJECT_ROLE).values() if entry["role"] == role]
        assert holds(binding, "cloudresourcemanager.googleapis.com/Project", "projects/my-project")


@pytest.mark.parametrize("stack", known_stacks())
def test_buckets_of_a_stack_have_names_that_the_condition_admits(stack: str, declared: Declared) -> None:
    bindings = {entry["role"]: entry for entry in declared.of_type(PROJECT_ROLE).values()}
    names = [key.split(" ")[1] for key in written(stack) if key.startswith("gcp:storage/bucket:Bucket ")]
    for name in names:
        # The end is Pulumi's.
        assert holds(bindings["roles/storage.admin"], _BUCKET, f"projects/_/buckets/{name}-1a2b3c4")


def test_a_condition_has_at_most_as_many_operators_as_google_takes(declared: Declared) -> None:
    for binding in declared.of_type(PROJECT_ROLE).values():
        expression = (binding.get("condition") or {}).get("expression", "")
        assert len(re.findall(r"&&|\|\|", expression)) <= 12
