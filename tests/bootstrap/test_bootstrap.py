"""What the pipelines need: identities without keys, for this repository alone, that can do what they must."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pulumi
import pytest
import yaml

from bootstrap import program, roles
from bootstrap.federation import GitHub, GitLab, github_rules, gitlab_rules
from bootstrap.settings import Settings
from engine.project import ROOT
from stacks.reader import ConfigReader, SettingsError

GITHUB = GitHub(repository="owner/name", repository_id="42")
GITLAB = GitLab(project_id="7", url="https://gitlab.com")
SETTINGS = Settings.model_validate(
    {
        "gcp:project": "my-project",
        "gcp:region": "us-central1",
        "githubRepository": GITHUB.repository,
        "githubRepositoryId": GITHUB.repository_id,
        "gitlabProjectId": GITLAB.project_id,
    }
)
PROJECT_ROLE = "gcp:projects/iAMMember:IAMMember"


class _Mocks(pulumi.runtime.Mocks):
    """Gives every resource the outputs that the program reads, and remembers it."""

    def __init__(self) -> None:
        self.resources: list[tuple[str, str, dict[str, Any]]] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Records a resource."""
        self.resources.append((args.typ, args.name, dict(args.inputs)))
        email = f"{args.name}@my-project.iam.gserviceaccount.com"
        computed = {"name": f"NAME-OF-{args.name}", "email": email, "member": f"serviceAccount:{email}"}
        return f"ID-OF-{args.name}", {**computed, **args.inputs}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        """Refuses: the program calls no data source."""
        raise AssertionError(args.token)


@pytest.fixture(scope="module")
def declared() -> Iterator[list[tuple[str, str, dict[str, Any]]]]:
    """Type, name and inputs of everything that the bootstrap declares."""
    mocks = _Mocks()
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(mocks, project="llm-stacks-bootstrap", stack="test", preview=False)
    pulumi.runtime.test(lambda: program.build(SETTINGS) and None)()
    yield mocks.resources


def of_type(declared: list[tuple[str, str, dict[str, Any]]], ending: str) -> dict[str, dict[str, Any]]:
    return {name: inputs for kind, name, inputs in declared if kind.endswith(ending)}


def project_roles(declared: list[tuple[str, str, dict[str, Any]]], account: str) -> set[str]:
    given = of_type(declared, PROJECT_ROLE).values()
    return {each["role"] for each in given if account in each["member"]}


def test_there_is_no_key_of_an_account(declared: list[tuple[str, str, dict[str, Any]]]) -> None:
    assert of_type(declared, ":Account")
    assert not [kind for kind, _, _ in declared if "key:Key" in kind]


def test_what_previews_can_only_look(declared: list[tuple[str, str, dict[str, Any]]]) -> None:
    given = project_roles(declared, "llm-preview-account")
    assert given == set(roles.PREVIEW)
    for role in given:
        assert re.search(r"(viewer|Viewer|reader|securityReviewer)$", role), role
    assert not given & {"roles/viewer", "roles/storage.objectViewer"}


def test_what_previews_reads_no_secret_and_becomes_nobody_else(
    declared: list[tuple[str, str, dict[str, Any]]],
) -> None:
    for kind, name, inputs in declared:
        role = str(inputs.get("role"))
        if "llm-preview-account" in str(inputs.get("member")):
            assert "secretAccessor" not in role, name
            assert "serviceAccountTokenCreator" not in role, name
            assert "serviceAccountUser" not in role, name
            assert "Encrypter" not in role, name
        if kind.endswith("serviceaccount/iAMMember:IAMMember"):
            assert role == "roles/iam.workloadIdentityUser", name


def test_the_state_is_read_by_previews_and_nothing_but_the_state(
    declared: list[tuple[str, str, dict[str, Any]]],
) -> None:
    ((name, inputs),) = of_type(declared, "storage/bucketIAMMember:BucketIAMMember").items()
    assert name == "llm-preview-state"
    assert inputs["role"] == "roles/storage.objectViewer"
    assert inputs["bucket"] == "NAME-OF-llm-state-bucket"


def test_the_deploy_identity_has_what_a_first_run_asks_of_a_person(
    declared: list[tuple[str, str, dict[str, Any]]],
) -> None:
    text = (ROOT / "docs" / "first-run.md").read_text()
    asked = set(
        re.findall(r"`(roles/[\w.]+)`", text[text.index("you these roles on it") :].split("(The list")[0])
    )
    assert project_roles(declared, "llm-deploy-account") == asked


def test_the_deploy_identity_gives_no_role_but_those_that_stacks_give(
    declared: list[tuple[str, str, dict[str, Any]]],
) -> None:
    rows = [
        row
        for file in (ROOT / "tests/inventories").glob("*.yaml")
        for row in yaml.safe_load(file.read_text())
    ]
    given = {row["inputs"]["role"] for row in rows if row["type"] == PROJECT_ROLE}
    assert given == set(roles.GRANTED)
    granter = of_type(declared, PROJECT_ROLE)["llm-deploy-granter"]
    assert granter["role"] == "roles/resourcemanager.projectIamAdmin"
    for role in given:
        assert f"'{role}'" in granter["condition"]["expression"]
    assert "hasOnly" in granter["condition"]["expression"]


def test_each_identity_is_for_the_jobs_with_its_attribute(
    declared: list[tuple[str, str, dict[str, Any]]],
) -> None:
    members = of_type(declared, "serviceaccount/iAMMember:IAMMember")
    pool = "principalSet://iam.googleapis.com/NAME-OF-llm-pool"
    assert members["llm-preview-jobs"]["member"] == f"{pool}/attribute.previews/yes"
    assert members["llm-deploy-jobs"]["member"] == f"{pool}/attribute.deploys/yes"


def test_only_this_repositorys_tokens_are_taken(declared: list[tuple[str, str, dict[str, Any]]]) -> None:
    providers = of_type(declared, ":WorkloadIdentityPoolProvider")
    assert providers["llm-github"]["attributeCondition"] == (
        "assertion.repository == 'owner/name' && assertion.repository_id == '42'"
    )
    assert providers["llm-gitlab"]["attributeCondition"] == "assertion.project_id == '7'"
    assert providers["llm-github"]["oidc"]["issuerUri"] == "https://token.actions.githubusercontent.com"
    assert providers["llm-gitlab"]["oidc"]["issuerUri"] == "https://gitlab.com"


def holds(expression: str, claims: dict[str, str]) -> bool:
    """Evaluates the little of the Common Expression Language that the rules are written in."""
    found = re.fullmatch(r"\((.*)\) \? 'yes' : 'no'", expression)
    text = (found[1] if found else expression).replace("&&", "and").replace("true", "True")
    assert re.fullmatch(r"[\w\s.'=:/-]+", text)
    text = re.sub(r"assertion\.(\w+)", r"claims['\1']", text)
    text = text.replace("'True'", "'true'")
    return bool(eval(text, {"claims": claims}))


GITHUB_JOB = {
    "repository": "owner/name",
    "repository_id": "42",
    "ref": "refs/heads/main",
    "event_name": "workflow_dispatch",
    "sub": "repo:owner/name:environment:production",
}
GITLAB_JOB = {"project_id": "7", "ref": "main", "ref_type": "branch", "ref_protected": "true"}


@pytest.mark.parametrize(
    ("changed", "deploys", "previews"),
    [
        ({}, True, False),
        ({"ref": "refs/heads/feature"}, False, False),
        ({"ref": "refs/pull/5/merge", "event_name": "pull_request"}, False, False),
        ({"sub": "repo:owner/name:environment:preview"}, False, True),
        ({"sub": "repo:owner/name:pull_request"}, False, False),
        ({"sub": "repo:owner/name:ref:refs/heads/main"}, False, False),
        ({"event_name": "push"}, False, False),
    ],
)
def test_a_job_of_github_is_what_its_environment_and_branch_say(
    changed: dict[str, str], deploys: bool, previews: bool
) -> None:
    condition, mapping = github_rules(GITHUB, "main")
    claims = {**GITHUB_JOB, **changed}
    assert holds(condition, claims)
    assert holds(mapping["attribute.deploys"], claims) is deploys
    assert holds(mapping["attribute.previews"], claims) is previews


@pytest.mark.parametrize(
    "changed", [{"repository": "fork/name"}, {"repository_id": "43"}, {"repository": "owner/name2"}]
)
def test_another_repository_of_github_is_nobody(changed: dict[str, str]) -> None:
    condition, _ = github_rules(GITHUB, "main")
    assert not holds(condition, {**GITHUB_JOB, **changed})


@pytest.mark.parametrize(
    ("changed", "deploys"),
    [
        ({}, True),
        ({"ref": "feature"}, False),
        ({"ref_protected": "false"}, False),
        ({"ref_type": "tag"}, False),
    ],
)
def test_a_job_of_gitlab_deploys_from_the_protected_main_branch_only(
    changed: dict[str, str], deploys: bool
) -> None:
    condition, mapping = gitlab_rules(GITLAB, "main")
    claims = {**GITLAB_JOB, **changed}
    assert holds(condition, claims)
    assert holds(mapping["attribute.deploys"], claims) is deploys
    assert holds(mapping["attribute.previews"], claims)


def test_a_fork_at_gitlab_is_nobody() -> None:
    condition, _ = gitlab_rules(GITLAB, "main")
    assert not holds(condition, {**GITLAB_JOB, "project_id": "8"})


def test_the_state_has_a_history_and_is_never_public(declared: list[tuple[str, str, dict[str, Any]]]) -> None:
    (bucket,) = of_type(declared, "storage/bucket:Bucket").values()
    assert bucket["versioning"] == {"enabled": True}
    assert bucket["publicAccessPrevention"] == "enforced"
    assert bucket["uniformBucketLevelAccess"] is True
    assert bucket["forceDestroy"] is False
    (rule,) = bucket["lifecycleRules"]
    assert rule["condition"] == {"daysSinceNoncurrentTime": 30, "withState": "ARCHIVED"}


def test_state_and_key_are_not_destroyed_with_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    protected: dict[str, bool | None] = {}
    make = pulumi.CustomResource.__init__

    def note(self: Any, kind: str, name: str, props: Any, opts: pulumi.ResourceOptions, *rest: Any) -> None:
        protected[name] = opts.protect
        make(self, kind, name, props, opts, *rest)

    monkeypatch.setattr(pulumi.CustomResource, "__init__", note)
    pulumi.runtime.set_mocks(_Mocks(), project="llm-stacks-bootstrap", stack="test", preview=False)
    pulumi.runtime.test(lambda: program.build(SETTINGS) and None)()
    kept = {name for name, protect in protected.items() if protect}
    assert kept == {"llm-state-bucket", "llm-state-ring", "llm-state-key"}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    def loaded(**values: str) -> Settings:
        mapped = {
            (f"gcp:{key}" if key in ("project", "region") else f"llm-stacks-bootstrap:{key}"): value
            for key, value in values.items()
        }
        pulumi.runtime.set_mocks(_Mocks(), project="llm-stacks-bootstrap", stack="test", preview=False)
        pulumi.runtime.set_all_config(mapped)
        return ConfigReader.of_program().read(Settings)

    yield loaded
    pulumi.runtime.set_all_config({})


def test_the_settings_are_read(load: Any) -> None:
    assert (
        load(
            project="my-project",
            region="us-central1",
            githubRepository="owner/name",
            githubRepositoryId="42",
            gitlabProjectId="7",
        )
        == SETTINGS
    )


def test_all_problems_are_told_at_once(load: Any) -> None:
    with pytest.raises(SettingsError) as raised:
        load(region="us-central1-a", githubRepository="owner/name", gitlabUrl="http://gitlab.example")
    text = str(raised.value)
    for key in ("gcp:project: missing", "gcp:region", "give both or none", "gitlabUrl"):
        assert key in text


def test_without_a_repository_nobody_is_trusted(load: Any) -> None:
    with pytest.raises(SettingsError, match="give the repository"):
        load(project="my-project", region="us-central1")


def test_a_quote_cannot_end_a_condition_early(load: Any) -> None:
    with pytest.raises(SettingsError, match="mainBranch"):
        load(
            project="my-project",
            region="us-central1",
            gitlabProjectId="7",
            mainBranch="main' || true || 'a' == 'a",
        )


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
