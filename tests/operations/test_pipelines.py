"""What the pipelines of both forges do: which jobs run when, as whom, and with which rights."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.project import ROOT, known_stacks
from operations.command_line import COMMANDS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
PIPELINE = ROOT / ".gitlab-ci.yml"
SCHEMAS = {
    **dict.fromkeys(WORKFLOWS, "github-workflows"),
    **dict.fromkeys(ACTIONS, "github-actions"),
    PIPELINE: "gitlab-ci",
    ROOT / "renovate.json": "renovate",
}
# Without the tests' own stacks, which are there while a test runs.
STACKS = known_stacks()
MODULES = sorted((ROOT / "tools").glob("*/go.mod"))
MAKEFILE = (ROOT / "Makefile").read_text() + (ROOT / "pipelines.mk").read_text()
# `on` is a truth value to YAML 1.1.
ON: Any = True
GITHUB: dict[str, dict[Any, Any]] = {file.stem: yaml.safe_load(file.read_text()) for file in WORKFLOWS}
GITLAB: dict[str, dict[str, Any]] = yaml.safe_load(PIPELINE.read_text())
JOBS: dict[str, dict[str, Any]] = {
    name: {"permissions": workflow["permissions"], **job}
    for workflow in GITHUB.values()
    for name, job in workflow["jobs"].items()
}


def extended(job: Mapping[str, Any]) -> dict[str, Any]:
    """A job of GitLab's with what it extends."""
    bases = job.get("extends", [])
    whole: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        whole |= GITLAB[base]
    return {**whole, **job, "variables": {**whole.get("variables", {}), **job.get("variables", {})}}


GITLAB_JOBS = {name: extended(job) for name, job in GITLAB.items() if "script" in job}


def holds(condition: str, values: Mapping[str, str], unset: str | None) -> bool:
    """Whether a condition of either forge holds: both write comparisons, `&&` and `||`."""
    text = re.sub(
        r"\$(\w+)|((?:github|vars)\.[\w.]+)", lambda name: repr(values.get(name[0], unset)), condition
    )
    return bool(eval(text.replace("&&", " and ").replace("||", " or ").replace("null", "None")))


# Which jobs run


OWN = "github.event.pull_request.head.repo.full_name"
RUNS_AT_GITHUB = {
    "a pull request": ("pull_request", {OWN: "us/it"}, "make test-cluster preview-cloud"),
    "of a fork": ("pull_request", {OWN: "them/it"}, "make test-cluster preview"),
    "without Google": (
        "pull_request",
        {OWN: "us/it", "vars.GOOGLE_PREVIEW_ACCOUNT": ""},
        "make test-cluster preview",
    ),
    "every day": ("schedule", {}, "drift test-all test-pods test-serving"),
    "every day, without Google": (
        "schedule",
        {"vars.GOOGLE_PREVIEW_ACCOUNT": ""},
        "test-all test-pods test-serving",
    ),
    "by hand": ("workflow_dispatch", {}, "drift test-all test-pods test-serving up"),
    "by hand, from a branch": (
        "workflow_dispatch",
        {"github.ref": "refs/heads/branch"},
        "test-all test-pods test-serving",
    ),
    "after the previews": ("workflow_run", {"github.event.workflow_run.event": "pull_request"}, "comment"),
    "after something else": ("workflow_run", {"github.event.workflow_run.event": "push"}, ""),
    "a push": ("push", {}, ""),
}


@pytest.mark.parametrize("situation", RUNS_AT_GITHUB)
def test_the_jobs_that_run_at_github(situation: str) -> None:
    event, values, expected = RUNS_AT_GITHUB[situation]
    usual = {
        "github.repository": "us/it",
        "github.ref": "refs/heads/main",
        "github.event.workflow_run.conclusion": "success",
        "vars.GOOGLE_PREVIEW_ACCOUNT": "preview@",
    }
    ran = {
        name
        for workflow in GITHUB.values()
        if event in workflow[ON]
        for name, job in workflow["jobs"].items()
        if holds(job.get("if", "True"), {**usual, **values}, unset="")
    }
    assert ran == set(expected.split())


MERGE_REQUEST = {
    "CI_PIPELINE_SOURCE": "merge_request_event",
    "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
    "CI_MERGE_REQUEST_PROJECT_ID": "1",
}
BY_MEMBER = {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}
OF_FORK = {**BY_MEMBER, "CI_PROJECT_ID": "2", "GOOGLE_PREVIEW_ACCOUNT": None}
UP = {"CI_PIPELINE_SOURCE": "web", "CI_COMMIT_BRANCH": "main"}
RUNS_AT_GITLAB = {
    "a merge request": (MERGE_REQUEST, "make test-cluster preview-cloud comment"),
    "of a fork": (OF_FORK, "make test-cluster preview"),
    "of a fork, run by a member": (BY_MEMBER, "make test-cluster preview comment"),
    "without Google": (
        {**MERGE_REQUEST, "GOOGLE_PREVIEW_ACCOUNT": None},
        "make test-cluster preview comment",
    ),
    "every day": (
        {"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main"},
        "drift test-all test-pods test-serving",
    ),
    "every day, of a branch": ({"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "branch"}, ""),
    "by hand": (UP, "up"),
    "by hand, from a branch": ({**UP, "CI_COMMIT_BRANCH": "branch"}, ""),
    "by hand, unprotected": ({**UP, "CI_COMMIT_REF_PROTECTED": "false"}, ""),
    "a push": ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"}, ""),
}


@pytest.mark.parametrize("situation", RUNS_AT_GITLAB)
def test_the_jobs_that_run_at_gitlab(situation: str) -> None:
    variables, expected = RUNS_AT_GITLAB[situation]
    usual = {
        "CI_PROJECT_ID": "1",
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_REF_PROTECTED": "true",
        "GOOGLE_PREVIEW_ACCOUNT": "preview@",
        "GOOGLE_DEPLOY_ACCOUNT": "deploy@",
    }
    values = {f"${name}": value for name, value in {**usual, **variables}.items() if value is not None}
    ran = {}
    for name, job in GITLAB_JOBS.items():
        rules = (rule for rule in job["rules"] if holds(rule["if"], values, unset=None))
        ran[name] = next(rules, {"when": "never"}).get("when", "on_success")
    assert {name for name, when in ran.items() if when != "never"} == set(expected.split())
    assert ran["up"] in ("never", "manual")


def test_the_up_that_somebody_approved_undoes_what_was_changed_by_hand() -> None:
    """Without `--refresh` it would compare with the state alone."""
    words = ["make", "--dry-run", "--assume-old=.venv/.ready", "up", f"STACK={STACKS[0]}"]
    recipe = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (command,) = [line for line in recipe.splitlines() if line.startswith("pulumi up ")]
    assert {"--refresh", "--yes", "--non-interactive"} <= set(command.split())


# As whom, and with which rights


@pytest.mark.parametrize("name", JOBS)
def test_only_previews_and_drift_of_the_project_and_up_have_an_identity(name: str) -> None:
    """Jobs of a fork have no identity, and no key is stored anywhere."""
    accounts = {"preview-cloud": "PREVIEW", "drift": "PREVIEW", "up": "DEPLOY"}
    account = f"GOOGLE_{accounts[name]}_ACCOUNT" if name in accounts else ""
    job = GITLAB_JOBS[name]
    assert job["variables"].get("GOOGLE_ACCOUNT", "").removeprefix("$") == account
    assert ("id_tokens" in job) == (name in accounts)
    (inputs,) = [step.get("with", {}) for step in JOBS[name]["steps"] if "set-up" in str(step)]
    assert inputs.get("account", "") == (f"${{{{ vars.{account} }}}}" if account else "")
    assert ("id-token" in JOBS[name]["permissions"]) == (name in accounts)
    for file in SCHEMAS:
        assert not re.search(r"credentials_json|service_account_key|GOOGLE_CREDENTIALS", file.read_text())


@pytest.mark.parametrize("name", JOBS)
def test_no_job_can_write_but_the_one_that_comments(name: str) -> None:
    (workflow,) = (workflow for workflow in GITHUB.values() if name in workflow["jobs"])
    job = JOBS[name]
    written = {right for right, level in job["permissions"].items() if level == "write"}
    assert written - {"id-token"} == ({"pull-requests"} if name == "comment" else set())
    assert job["timeout-minutes"] <= 350
    (checkout,) = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert checkout["persist-credentials"] is False
    assert name == "comment" or "secrets." not in str(workflow)
    # What can write a comment runs the main branch's code.
    assert name != "comment" or set(checkout) == {"persist-credentials"}


def test_the_comment_comes_after_the_previews_also_after_failed_ones_and_waits_for_no_test() -> None:
    assert GITHUB["comment"][ON]["workflow_run"]["workflows"] == [GITHUB["preview"]["name"]]
    assert set(GITHUB["preview"]["jobs"]) == {"preview", "preview-cloud"}
    (download,) = [step for step in JOBS["comment"]["steps"] if "download" in step.get("uses", "")]
    assert download["continue-on-error"] is True
    assert [need["job"] for need in GITLAB["comment"]["needs"]] == ["preview", "preview-cloud"]
    assert GITLAB["comment"]["rules"][0]["when"] == "always"


def test_the_job_that_comments_is_told_whether_it_is_about_a_fork() -> None:
    """GitLab tells it every job of a merge request's pipeline."""
    (step,) = [step for step in JOBS["comment"]["steps"] if step.get("run") == "make comment-github"]
    head = "github.event.workflow_run.head_repository.full_name"
    assert step["env"]["HEAD_REPOSITORY"] == f"${{{{ {head} }}}}"


def test_gitlabs_token_is_that_of_one_job() -> None:
    """The scope of the variable decides that, as docs/merge-requests.md says.

    No rule of the pipeline sees it then.
    """
    environments = {
        name: job["environment"]["name"] for name, job in GITLAB_JOBS.items() if "environment" in job
    }
    assert [name for name, environment in environments.items() if environment == "comment"] == ["comment"]
    assert "$GITLAB_TOKEN" not in PIPELINE.read_text()
    assert "the environment scope `comment`" in (ROOT / "docs/merge-requests.md").read_text()


def test_images_are_named_by_digest_but_for_those_that_are_listed_as_open() -> None:
    images = re.findall(r"image: (\S+)", PIPELINE.read_text())
    open_ones = sorted(image for image in images if not re.search("@sha256:[0-9a-f]{64}$", image))
    golang, google = open_ones
    assert google.startswith("gcr.io/google.com/cloudsdktool/google-cloud-cli:")
    assert golang.startswith("docker.io/library/golang:")
    page = (ROOT / "docs/merge-requests.md").read_text().partition("not been tried")[2]
    assert "images of Go and of Google's client" in page


def test_up_waits_for_an_approval_and_knows_every_stack() -> None:
    """At GitHub a name is typed, and `make` refuses a wrong one (tests/test_house.py)."""
    stack = GITHUB["up"][ON]["workflow_dispatch"]["inputs"]["stack"]
    assert stack["type"] == "string" and stack["required"] is True
    assert JOBS["up"]["environment"] == "production"
    assert GITLAB["up"]["parallel"]["matrix"] == [{"STACK": STACKS}]
    # The environment that the deploy identity is given to: a name that nobody types.
    assert GITLAB["up"]["environment"]["name"] == "production"
    assert not [name for name, value in GITLAB["variables"].items() if isinstance(value, dict)]


def test_what_writes_the_comment_at_gitlab_runs_main_and_unpacks_nothing_of_the_branch() -> None:
    comment = GITLAB["comment"]
    assert comment["variables"]["GIT_STRATEGY"] == "none"
    assert not any(need["artifacts"] for need in comment["needs"])
    clone, make = comment["script"][-2:]
    assert '--branch "$CI_DEFAULT_BRANCH"' in clone and make == "make --directory main comment-gitlab"


def test_rights_are_given_to_jobs_and_not_to_workflows() -> None:
    for workflow in GITHUB.values():
        assert set(workflow["permissions"].values()) == {"read"}


def test_drift_waits_for_no_reviewer_of_previews() -> None:
    assert (JOBS["preview-cloud"]["environment"], JOBS["drift"]["environment"]) == ("preview", "drift")
    assert GITLAB["drift"]["environment"]["name"] == "drift"


def test_what_changes_the_same_thing_runs_one_at_a_time() -> None:
    assert GITHUB["up"]["concurrency"] == "up-${{ inputs.stack }}"
    for name in ("merge-request", "preview"):
        group = GITHUB[name]["concurrency"]
        assert "pull_request.number" in group["group"] and group["cancel-in-progress"] is True
    assert GITLAB["workflow"]["auto_cancel"] == {"on_new_commit": "interruptible"}
    assert GITLAB["default"]["interruptible"] is True
    assert GITLAB["comment"]["resource_group"] == "comment-$CI_MERGE_REQUEST_IID"
    assert (GITLAB["up"]["resource_group"], GITLAB["up"]["interruptible"]) == ("up-$STACK", False)


# What they run


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.name)
def test_the_file_follows_the_published_schema(file: Path) -> None:
    words = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[file]}", str(file)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_jobs_only_call_make_and_both_forges_call_the_same() -> None:
    """Everything that a job does can be done and tested without a forge.

    Nothing that a stranger writes reaches a shell.
    """
    steps = [step for job in JOBS.values() for step in job["steps"] if "run" in step]
    # What fails before a pipe is lost without `pipefail`, which a run has when its shell is named.
    assert all(step.get("shell") == "bash" for step in steps if "|" in step["run"])
    github = {step["run"].removesuffix(' | tee --append "$GITHUB_STEP_SUMMARY"') for step in steps}
    jobs = *GITLAB_JOBS.values(), GITLAB["default"]
    gitlab = {line for job in jobs for line in (*job.get("before_script", ()), *job.get("script", ()))}
    (matrix,) = GITLAB["make"]["parallel"]["matrix"]
    assert matrix["CHECKED"] == JOBS["make"]["strategy"]["matrix"]["target"]
    alone = (
        "test-cluster",
        "test-all",
        "test-pods-slow",
        "test-serving",
        "preview",
        "preview-cloud",
        "up",
        "drift",
    )
    both = {f"make {target}" for target in (*matrix["CHECKED"], *alone)}
    assert github - both == {"make ${{ matrix.target }}", "make comment-github"}
    called = {line for line in gitlab if not line.startswith("apt-get update && apt-get install --yes")}
    comment = GITLAB["comment"]["script"]
    called -= {*comment}
    assert called - both == {"make $CHECKED", "make google-login"}
    targets = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
    assert {line.split()[-1] for line in both | called - {"make $CHECKED"} | {comment[-1]}} <= targets


def test_what_a_local_control_plane_needs_is_there_before_it_is_asked_for() -> None:
    """Its programs are built once for each version, Go is new enough, and pods run in a sandbox."""
    action = next(file for file in ACTIONS if file.parent.name == "control-plane")
    cache, *commands = yaml.safe_load(action.read_text())["runs"]["steps"]
    assert cache["with"]["path"] == ".tools"
    assert "hashFiles('tools/*/go.sum')" in cache["with"]["key"]
    install, allow = (step["run"] for step in commands)
    assert {"bubblewrap", "nftables"} <= set(install.split())
    assert allow == "sudo sysctl --write kernel.apparmor_restrict_unprivileged_userns=0"
    minor = max(re.findall(r"^go 1\.(\d+)", "\n".join(map(Path.read_text, MODULES)), re.MULTILINE))
    for name in ("test-cluster", "test-pods", "test-serving"):
        assert f"./{action.parent.relative_to(ROOT)}" in {step.get("uses") for step in JOBS[name]["steps"]}
        job = GITLAB_JOBS[name]
        assert job["image"].startswith(f"docker.io/library/golang:1.{minor}-")
        assert job["cache"]["paths"] == [".tools"]
        assert all((ROOT / file).exists() for file in job["cache"]["key"]["files"])
        assert {"bubblewrap", "nftables"} <= set(job["before_script"][0].split())


def test_every_command_that_make_calls_exists() -> None:
    called = re.findall(r"-m operations ([a-z-]+)", MAKEFILE)
    assert {"preview-comment", "drift"} <= set(called) <= set(COMMANDS)


def test_an_action_of_somebody_else_is_pinned_by_commit_and_has_one_version() -> None:
    used = {use for file in (*WORKFLOWS, *ACTIONS) for use in re.findall(r"uses: (.*)", file.read_text())}
    used -= {f"./{action.parent.relative_to(ROOT)}" for action in ACTIONS}
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert len(used) == len({action.split("@")[0] for action in used})


# The identity of GitLab's jobs


# It writes its arguments into the file that is to hold the credentials.
GCLOUD = """#!/bin/sh
[ -z "$CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE" ] || exit 1
for word; do case "$word" in --output-file=*) echo "$@" > "${word#*=}"; esac; done
"""
LOGIN = {
    "GOOGLE_ID_TOKEN": "opaque-token-of-the-job",
    "GOOGLE_PROVIDER": "projects/1/locations/global/workloadIdentityPools/forges/providers/gitlab",
    "GOOGLE_ACCOUNT": "preview@my-project.iam.gserviceaccount.com",
}


def google_login(folder: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """`make google-login`, with a gcloud that writes down how it was called."""
    gcloud = folder / "gcloud"
    gcloud.write_text(GCLOUD)
    gcloud.chmod(0o755)
    environment = {name: value for name, value in {**os.environ, **LOGIN}.items() if name != without}
    environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE"):
        environment[name] = str(folder / "google" / "credentials.json")
    words = ["make", "--silent", "google-login"]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_gcloud_writes_the_credentials_of_the_jobs_own_token_which_nobody_else_can_read(
    tmp_path: Path,
) -> None:
    for _ in range(2):
        done = google_login(tmp_path)
    assert not done.returncode and LOGIN["GOOGLE_ID_TOKEN"] not in done.stdout + done.stderr
    file = tmp_path / "google" / "credentials.json"
    words = file.read_text().split()
    assert words[:4] == ["iam", "workload-identity-pools", "create-cred-config", LOGIN["GOOGLE_PROVIDER"]]
    options = dict(word.split("=") for word in words[4:])
    assert options["--service-account"] == LOGIN["GOOGLE_ACCOUNT"]
    assert Path(options["--credential-source-file"]).read_text() == LOGIN["GOOGLE_ID_TOKEN"]
    assert {path.stat().st_mode & 0o077 for path in [file.parent, *file.parent.iterdir()]} == {0}


@pytest.mark.parametrize("name", LOGIN)
def test_what_is_missing_is_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    done = google_login(tmp_path, without=name)
    assert done.returncode and f"{name}: is not set; docs/merge-requests.md says" in done.stderr
    assert not (tmp_path / "google").exists()
