"""What the pipelines need: identities without keys, for this repository alone, that can do what they must."""

import os
import re
import subprocess
import sys
from typing import Any

import pulumi
import pytest

from bootstrap import roles
from bootstrap.settings import Settings
from cloud import records
from cloud.services import iam
from engine.project import ROOT, known_stacks
from operations.previews.stack_inputs import stack_file
from stacks import scenario_modules
from stacks.settings.accounts import PROJECT_ROLES, purposes_of
from stacks.settings.reader import ConfigReader, SettingsError, as_text
from tests import inventory
from tests.bootstrap.declared import PROJECT_ROLE, SETTINGS, VALUES, Declared

STATE_BUCKETS = ("llm-state-bucket", "llm-bootstrap-bucket")


def test_there_is_no_key_of_an_account(declared: Declared) -> None:
    assert declared.of_type(":Account")
    assert not declared.of_type("key:Key")


def test_what_previews_can_only_look(declared: Declared) -> None:
    preview_roles = declared.project_roles("llm-preview-account")
    assert preview_roles == set(roles.PREVIEW)
    for role in preview_roles:
        assert re.search(r"(viewer|Viewer|reader|securityReviewer)$", role), role
    assert not preview_roles & {"roles/viewer", "roles/storage.objectViewer"}


def test_what_previews_reads_no_secret_and_becomes_nobody_else(declared: Declared) -> None:
    for kind, name, inputs in declared.resources:
        role = str(inputs.get("role"))
        if "llm-preview-account" in str(inputs.get("member")):
            for right in ("secretAccessor", "serviceAccountTokenCreator", "serviceAccountUser", "Encrypter"):
                assert right not in role, name
        if kind.endswith("serviceaccount/iAMMember:IAMMember") and "deploy" not in name:
            assert role == "roles/iam.workloadIdentityUser", name


def test_the_state_is_read_by_previews_and_written_by_up(declared: Declared) -> None:
    members = declared.of_type("storage/bucketIAMMember:BucketIAMMember")
    assert {name: inputs["role"] for name, inputs in members.items()} == {
        "llm-preview-state": "roles/storage.objectViewer",
        "llm-deploy-state": "roles/storage.objectAdmin",
    }
    assert {inputs["bucket"] for inputs in members.values()} == {"NAME-OF-llm-state-bucket"}


def test_the_bootstrap_keeps_its_own_state_in_the_bucket_that_no_pipeline_reaches(declared: Declared) -> None:
    assert declared.outputs["PULUMI_BACKEND_URL"] == "gs://NAME-OF-llm-state-bucket"
    assert declared.outputs["bootstrapBackend"] == "gs://NAME-OF-llm-bootstrap-bucket"


@pytest.mark.parametrize("scenario", ["llm", "llm-state", "llm-bootstrap"])
def test_no_scenario_has_a_name_that_admits_a_bucket_of_state(scenario: str) -> None:
    with pytest.raises(ValueError, match=f"scenario {scenario}: the pipelines would own the bucket llm-"):
        roles.conditions(["dev", scenario], not_for=STATE_BUCKETS)


def test_the_deploy_identity_has_what_a_first_run_asks_of_a_person(declared: Declared) -> None:
    text = (ROOT / "docs" / "first-run.md").read_text()
    asked = set(
        re.findall(r"`(roles/[\w.]+)`", text[text.index("you these roles on it") :].split("For the state")[0])
    )
    # What a person's `up` does with accounts is done by the bootstrap for the pipelines.
    with_accounts = {
        "roles/iam.serviceAccountAdmin",
        "roles/iam.serviceAccountUser",
        "roles/resourcemanager.projectIamAdmin",
    }
    # The bootstrap makes a narrower role.
    for_logs = {"roles/logging.configWriter"}
    assert asked >= with_accounts | for_logs
    pipelines = declared.project_roles("llm-deploy-account")
    assert pipelines == (asked - with_accounts - for_logs) | {"NAME-OF-llm-log-alerts"}
    (role,) = declared.of_type(":IAMCustomRole").values()
    prefixes = {permission.rpartition(".")[0] for permission in role["permissions"]}
    assert prefixes == {"logging.notificationRules"}
    needed = {record.role for record in records.every().values() if record.permissions}
    assert needed | {*iam.ACT_AS.values()} <= asked


def test_every_stack_has_an_account_for_each_purpose_with_its_roles(declared: Declared) -> None:
    accounts = declared.of_type("serviceaccount/account:Account")
    ids = {str(inputs["accountId"]) for inputs in accounts.values() if "accountId" in inputs}
    assert ids == {
        *("llm-a4-ray-nodes", "llm-a4-ray-build"),
        *("llm-dev-build", "llm-dev-finetune", "llm-dev-serve"),
    }
    for account_id in ids:
        assert declared.project_roles(f"{account_id}@") == set(PROJECT_ROLES[account_id.rpartition("-")[2]])


@pytest.mark.parametrize("stack", known_stacks())
def test_an_account_of_the_bootstrap_has_the_roles_that_a_stack_gives_its_own(stack: str) -> None:
    """The roles in the project, which only the bootstrap can grant when the pipelines run the stack."""
    rows = inventory.written(stack).items()
    granted = {row["inputs"]["role"] for key, row in rows if key.startswith(f"{PROJECT_ROLE} ")}
    scenario = scenario_modules()[stack_file(stack)["scenario"]]
    assert granted == {role for purpose in purposes_of(scenario.Settings) for role in PROJECT_ROLES[purpose]}


def test_the_bootstrap_prints_the_command_that_gives_a_stack_its_accounts(declared: Declared) -> None:
    assert declared.outputs["accounts of dev"] == (
        "pulumi config set-all --stack dev "
        "--plaintext accounts.build=llm-dev-build@my-project.iam.gserviceaccount.com "
        "--plaintext accounts.finetune=llm-dev-finetune@my-project.iam.gserviceaccount.com "
        "--plaintext accounts.serve=llm-dev-serve@my-project.iam.gserviceaccount.com"
    )


def test_each_identity_is_for_the_jobs_with_its_attribute(declared: Declared) -> None:
    members = declared.of_type("serviceaccount/iAMMember:IAMMember")
    pool = "principalSet://iam.googleapis.com/NAME-OF-llm-pool"
    assert members["llm-preview-jobs"]["member"] == f"{pool}/attribute.previews/yes"
    assert members["llm-deploy-jobs"]["member"] == f"{pool}/attribute.deploys/yes"


def holds(expression: str, claims: dict[str, str]) -> bool:
    """Evaluates the little of the Common Expression Language that the rules are written in."""
    match = re.fullmatch(r"\((.*)\) \? 'yes' : 'no'", expression)
    text = (
        (match[1] if match else expression).replace("&&", "and").replace("||", "or").replace("true", "True")
    )
    assert re.fullmatch(r"[\w\s.'=:/-]+", text)
    text = re.sub(r"assertion\.(\w+)", r"claims['\1']", text)
    text = text.replace("'True'", "'true'")
    return bool(eval(text, {"claims": claims}))


def is_what(provider: dict[str, Any], claims: dict[str, str]) -> tuple[bool, bool, bool]:
    """Whether a job is trusted, may deploy, may preview."""
    mapping = provider["attributeMapping"]
    rules = (provider["attributeCondition"], mapping["attribute.deploys"], mapping["attribute.previews"])
    trusted, deploys, previews = (holds(rule, claims) for rule in rules)
    return trusted, deploys, previews


JOBS = {
    "github": {
        "repository": "owner/name",
        "repository_id": "42",
        "ref": "refs/heads/main",
        "event_name": "workflow_dispatch",
        "environment": "production",
        # As repositories made since July 2026 have it.
        "sub": "repo:owner@1/name@42:environment:production",
    },
    "gitlab": {
        "project_id": "7",
        "ref": "main",
        "ref_type": "branch",
        "ref_protected": "true",
        "pipeline_source": "web",
        "environment": "production",
        "environment_protected": "true",
    },
}


@pytest.mark.parametrize(
    ("forge", "changed", "deploys", "previews"),
    [
        ("github", {}, True, False),
        ("github", {"ref": "refs/heads/feature"}, False, False),
        ("github", {"ref": "refs/pull/5/merge", "event_name": "pull_request"}, False, False),
        ("github", {"environment": "preview"}, False, True),
        ("github", {"environment": "preview-2"}, False, False),
        ("github", {"environment": "drift"}, False, True),
        ("github", {"environment": "drift", "ref": "refs/heads/feature"}, False, False),
        ("github", {"sub": "repo:owner/name:environment:preview"}, True, False),
        ("github", {"event_name": "push"}, False, False),
        ("gitlab", {}, True, False),
        ("gitlab", {"ref": "feature"}, False, False),
        ("gitlab", {"ref_protected": "false"}, False, False),
        ("gitlab", {"ref_type": "tag"}, False, False),
        ("gitlab", {"pipeline_source": "push"}, False, False),
        # Anybody can name an environment; who may use a protected one, its approvers say.
        ("gitlab", {"environment_protected": "false"}, False, False),
        ("gitlab", {"environment": "production/x"}, False, False),
        ("gitlab", {"environment": "preview", "ref": "feature"}, False, True),
        ("gitlab", {"environment": "comment"}, False, False),
        ("gitlab", {"environment": "drift"}, False, True),
        ("gitlab", {"environment": "drift", "ref": "feature"}, False, False),
    ],
)
def test_a_job_is_what_its_environment_and_branch_say(
    declared: Declared, forge: str, changed: dict[str, str], deploys: bool, previews: bool
) -> None:
    assert is_what(declared.provider(forge), {**JOBS[forge], **changed}) == (True, deploys, previews)


@pytest.mark.parametrize(
    ("forge", "changed"),
    [
        ("github", {"repository": "fork/name"}),
        ("github", {"repository": "owner/name2"}),
        ("github", {"repository_id": "43"}),
        # A fork is a project of its own.
        ("gitlab", {"project_id": "8"}),
    ],
)
def test_another_repository_is_nobody(declared: Declared, forge: str, changed: dict[str, str]) -> None:
    assert not is_what(declared.provider(forge), {**JOBS[forge], **changed})[0]


def test_a_forge_is_known_by_who_signs_its_tokens(declared: Declared) -> None:
    issuers = {forge: declared.provider(forge)["oidc"]["issuerUri"] for forge in ("github", "gitlab")}
    assert issuers == {
        "github": "https://token.actions.githubusercontent.com",
        "gitlab": "https://gitlab.com",
    }


@pytest.mark.parametrize("name", STATE_BUCKETS)
def test_the_state_has_a_history_and_is_never_public(declared: Declared, name: str) -> None:
    bucket = declared.of_type("storage/bucket:Bucket")[name]
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["forceDestroy"] is False
    (rule,) = bucket["lifecycleRules"]
    assert rule["condition"] == {"daysSinceNoncurrentTime": 30, "withState": "ARCHIVED"}


@pytest.mark.parametrize("name", STATE_BUCKETS)
def test_viewers_and_editors_of_the_project_have_no_role_on_a_state(declared: Declared, name: str) -> None:
    bindings = declared.of_type("storage/bucketIAMBinding:BucketIAMBinding").values()
    here = {entry["role"]: entry["members"] for entry in bindings if entry["bucket"] == f"NAME-OF-{name}"}
    rights = ("BucketReader", "BucketOwner", "ObjectReader", "ObjectOwner")
    assert here == {f"roles/storage.legacy{right}": ["projectOwner:my-project"] for right in rights}


def test_state_and_key_are_not_destroyed_with_the_bootstrap(declared: Declared) -> None:
    assert declared.protected == {*STATE_BUCKETS, "llm-state-ring", "llm-state-key"}


def problems(**values: Any) -> str:
    """What is said of these settings, the required ones among them."""
    required = {key: VALUES[key] for key in ("gcp:project", "gcp:region", "stacks")}
    keys = {
        key if ":" in key else f"llm-stacks-bootstrap:{key}": as_text(value)
        for key, value in {**required, **values}.items()
    }
    pulumi.runtime.set_mocks(Declared(), project="llm-stacks-bootstrap", stack="test", preview=False)
    pulumi.runtime.set_all_config(keys)
    try:
        assert ConfigReader.of_program().read(Settings) == SETTINGS
    except SettingsError as error:
        return str(error)
    finally:
        pulumi.runtime.set_all_config({})
    return ""


def test_the_settings_are_read() -> None:
    assert problems(**VALUES) == ""


def test_all_problems_are_told_at_once() -> None:
    wrong = {"gcp:region": "us-central1-a", "gcp:project": "1"}
    text = problems(**wrong, githubRepository="owner/name", gitlabUrl="http://gitlab.example")
    for key in ("gcp:project", "gcp:region", "give both or none", "gitlabUrl"):
        assert key in text


@pytest.mark.parametrize(
    ("stacks", "words"),
    [
        ({"mine": "a4ray"}, "stacks: 'a4ray' of mine is not one of a4-accelerate, a4-ray"),
        ({"a-stack-of-the-whole-team": "a4-ray"}, "is not 1 to 17 lower-case letters"),
        ({"Mine": "a4-ray"}, "'Mine' is not 1 to 17 lower-case letters"),
        ("a4-ray", "is not scenarios by the names of stacks"),
    ],
)
def test_a_stack_that_cannot_have_accounts_is_one_message(stacks: Any, words: str) -> None:
    assert words in problems(**{**VALUES, "stacks": stacks})


def test_without_a_repository_nobody_is_trusted() -> None:
    assert "give the repository" in problems()


def test_a_quote_cannot_end_a_condition_early() -> None:
    assert "mainBranch" in problems(gitlabProjectId="7", mainBranch="main' || true || 'a' == 'a")


def test_pulumi_runs_the_program_in_its_own_folder() -> None:
    """Only the import of what it shares with the stacks is tried: it ends at the missing settings."""
    run = "import runpy; runpy.run_path('__main__.py', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-P", "-c", run],
        cwd=ROOT / "bootstrap",
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "gcp:project: missing; set it with `pulumi config set gcp:project MY_PROJECT`" in done.stderr
