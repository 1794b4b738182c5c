"""What the pipelines of both forges do: which jobs run when, as whom, and with which rights."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.project import ROOT
from operations.__main__ import COMMANDS

GITHUB = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(GITHUB.glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
GITLAB = ROOT / ".gitlab-ci.yml"
SCHEMAS = {
    **{file: "github-workflows" for file in WORKFLOWS},
    **{file: "github-actions" for file in ACTIONS},
    GITLAB: "gitlab-ci",
}
MAKEFILE = (ROOT / "Makefile").read_text() + (ROOT / "pipelines.mk").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))
# `on` is a truth value to YAML 1.1.
ON: Any = True


def parsed(file: Path) -> dict[Any, Any]:
    return yaml.safe_load(file.read_text())


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow or of GitLab's pipeline, with what they extend."""
    content = parsed(file)
    if file != GITLAB:
        return content["jobs"]
    return {
        name: extended(content, job)
        for name, job in content.items()
        if isinstance(job, dict) and "script" in job
    }


def extended(content: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, Any]:
    """A job of GitLab's with what it extends."""
    bases = job.get("extends", [])
    whole: dict[str, Any] = {}
    for base in [bases] if isinstance(bases, str) else bases:
        whole |= content[base]
    return {**whole, **job, "variables": {**whole.get("variables", {}), **job.get("variables", {})}}


def commands(file: Path) -> Iterator[str]:
    """Every line that a job runs."""
    for job in [*jobs(file).values(), parsed(file).get("default", {})]:
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
        yield from (*job.get("before_script", ()), *job.get("script", ()))


def holds(condition: str, values: Mapping[str, str], unset: str | None) -> bool:
    """Whether a condition of either forge holds: both write comparisons, `&&` and `||`."""
    text = re.sub(
        r"\$(\w+)|((?:github|vars)\.[\w.]+)", lambda name: repr(values.get(name[0], unset)), condition
    )
    return bool(eval(text.replace("&&", " and ").replace("||", " or ").replace("null", "None")))


# Which jobs run


OWN = "github.event.pull_request.head.repo.full_name"
GITHUB_RUNS = {
    "a pull request": ("pull_request", {OWN: "us/it"}, "check test provider-check preview-cloud"),
    "of a fork": ("pull_request", {OWN: "them/it"}, "check test provider-check preview"),
    "without Google": (
        "pull_request",
        {OWN: "us/it", "vars.GOOGLE_PREVIEW_ACCOUNT": ""},
        "check test provider-check preview",
    ),
    "every day": ("schedule", {}, "drift"),
    "every day, without Google": ("schedule", {"vars.GOOGLE_PREVIEW_ACCOUNT": ""}, ""),
    "by hand": ("workflow_dispatch", {}, "drift up"),
    "by hand, from a branch": ("workflow_dispatch", {"github.ref": "refs/heads/branch"}, ""),
    "after the previews": ("workflow_run", {"github.event.workflow_run.event": "pull_request"}, "comment"),
    "after something else": ("workflow_run", {"github.event.workflow_run.event": "push"}, ""),
    "a push": ("push", {}, ""),
}


@pytest.mark.parametrize("situation", GITHUB_RUNS)
def test_the_jobs_that_run_at_github(situation: str) -> None:
    event, values, expected = GITHUB_RUNS[situation]
    usual = {
        "github.repository": "us/it",
        "github.ref": "refs/heads/main",
        "github.event.workflow_run.conclusion": "success",
        "vars.GOOGLE_PREVIEW_ACCOUNT": "preview@",
    }
    ran = {
        name
        for file in WORKFLOWS
        if event in parsed(file)[ON]
        for name, job in jobs(file).items()
        if holds(job.get("if", "True"), {**usual, **values}, unset="")
    }
    assert ran == set(expected.split())


MERGE_REQUEST = {"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "1"}
UP = {"CI_PIPELINE_SOURCE": "web", "STACK": "dev", "CI_COMMIT_BRANCH": "main"}
GITLAB_RUNS = {
    "a merge request": (MERGE_REQUEST, "check test provider-check preview-cloud comment"),
    "of a fork": (
        {**MERGE_REQUEST, "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "2", "GITLAB_TOKEN": None},
        "check test provider-check preview",
    ),
    "without Google": (
        {**MERGE_REQUEST, "GOOGLE_PREVIEW_ACCOUNT": None},
        "check test provider-check preview comment",
    ),
    "every day": ({"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main"}, "drift"),
    "every day, of a branch": ({"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "branch"}, ""),
    "by hand": (UP, "up"),
    "by hand, without a stack": ({**UP, "STACK": ""}, ""),
    "by hand, from a branch": ({**UP, "CI_COMMIT_BRANCH": "branch"}, ""),
    "by hand, unprotected": ({**UP, "CI_COMMIT_REF_PROTECTED": "false"}, ""),
    "a push": ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"}, ""),
}


@pytest.mark.parametrize("situation", GITLAB_RUNS)
def test_the_jobs_that_run_at_gitlab(situation: str) -> None:
    given, expected = GITLAB_RUNS[situation]
    usual = {
        "CI_PROJECT_ID": "1",
        "CI_DEFAULT_BRANCH": "main",
        "CI_COMMIT_REF_PROTECTED": "true",
        "GOOGLE_PREVIEW_ACCOUNT": "preview@",
        "GOOGLE_DEPLOY_ACCOUNT": "deploy@",
        "GITLAB_TOKEN": "token",
    }
    values = {f"${name}": value for name, value in {**usual, **given}.items() if value is not None}

    def when(job: Mapping[str, Any]) -> str:
        rules = (rule for rule in job["rules"] if holds(rule["if"], values, unset=None))
        return next(rules, {"when": "never"}).get("when", "on_success")

    found = {name: when(job) for name, job in jobs(GITLAB).items()}
    assert {name for name, started in found.items() if started != "never"} == set(expected.split())
    assert found["up"] in ("never", "manual")


# As whom, and with which rights


def test_only_previews_and_drift_of_the_project_and_up_have_an_identity() -> None:
    """Of a fork, nothing has; no key is stored anywhere."""
    accounts = {"preview-cloud": "PREVIEW", "drift": "PREVIEW", "up": "DEPLOY"}
    for name, job in jobs(GITLAB).items():
        account = f"$GOOGLE_{accounts[name]}_ACCOUNT" if name in accounts else None
        assert (job["variables"].get("GOOGLE_ACCOUNT"), "id_tokens" in job) == (account, name in accounts)
    for name, job in [each for file in WORKFLOWS for each in jobs(file).items()]:
        (given,) = [step.get("with", {}).get("account", "") for step in job["steps"] if "set-up" in str(step)]
        assert given == (f"${{{{ vars.GOOGLE_{accounts[name]}_ACCOUNT }}}}" if name in accounts else "")
        assert ("id-token" in job.get("permissions", {})) == (name in accounts)
    for file in SCHEMAS:
        assert not re.search(r"credentials_json|service_account_key|GOOGLE_CREDENTIALS", file.read_text())


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_no_job_can_write_but_the_one_that_comments(file: Path) -> None:
    assert parsed(file)["permissions"] == {"contents": "read"}
    for name, job in jobs(file).items():
        written = {right for right, level in job.get("permissions", {}).items() if level == "write"}
        assert written - {"id-token"} == ({"pull-requests"} if name == "comment" else set())
        assert job["timeout-minutes"] <= 350
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
    assert file.name == "comment.yml" or "secrets." not in file.read_text()


def test_what_can_write_a_comment_runs_the_main_branchs_code() -> None:
    (job,) = jobs(GITHUB / "comment.yml").values()
    (checkout,) = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    after = parsed(GITHUB / "comment.yml")[ON]["workflow_run"]["workflows"]
    assert after == [parsed(GITHUB / "merge-request.yml")["name"]]
    assert set(checkout["with"]) == {"persist-credentials"}


def test_up_waits_for_an_approval_and_takes_the_name_of_any_stack() -> None:
    """Which one is none, `make` says: tests/test_house.py."""
    github, gitlab = parsed(GITHUB / "up.yml"), jobs(GITLAB)["up"]
    stack = github[ON]["workflow_dispatch"]["inputs"]["stack"]
    assert stack["type"] == "string" and stack["required"] is True
    assert github["jobs"]["up"]["environment"] == "production"
    assert parsed(GITLAB)["variables"]["STACK"]["value"] == ""
    assert gitlab["environment"]["name"].startswith("production")


def test_what_changes_the_same_thing_runs_one_at_a_time() -> None:
    assert parsed(GITHUB / "up.yml")["concurrency"] == {
        "group": "up-${{ inputs.stack }}",
        "cancel-in-progress": False,
    }
    preview, gitlab = parsed(GITHUB / "merge-request.yml")["concurrency"], parsed(GITLAB)
    assert "pull_request.number" in preview["group"] and preview["cancel-in-progress"] is True
    assert gitlab["workflow"]["auto_cancel"] == {"on_new_commit": "interruptible"}
    assert gitlab["default"]["interruptible"] is True
    assert gitlab["comment"]["resource_group"] == "comment-$CI_MERGE_REQUEST_IID"
    assert (gitlab["up"]["resource_group"], gitlab["up"]["interruptible"]) == ("up-$STACK", False)


# What they run


@pytest.mark.parametrize("file", SCHEMAS, ids=lambda file: file.name)
def test_the_file_follows_the_published_schema(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{SCHEMAS[file]}", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", [GITLAB, *WORKFLOWS], ids=lambda file: file.name)
def test_jobs_only_call_make(file: Path) -> None:
    """What a job does can be done, and tested, without a forge; nothing a stranger writes reaches a shell."""
    for line in commands(file):
        if line.startswith("apt-get update && apt-get install"):
            continue
        target = re.fullmatch(r'make ([a-z-]+)(?: \| tee --append "\$GITHUB_STEP_SUMMARY")?', line)
        assert target, line
        assert target[1] in TARGETS, line


def test_every_command_that_make_calls_exists() -> None:
    called = re.findall(r"-m operations ([a-z-]+)", MAKEFILE)
    assert {"preview-comment", "drift"} <= set(called) <= set(COMMANDS)


def test_an_action_of_somebody_else_is_pinned_by_commit_and_has_one_version() -> None:
    used = {
        action for file in (*WORKFLOWS, *ACTIONS) for action in re.findall(r"uses: (.*)", file.read_text())
    }
    ours = {f"./{file.parent.relative_to(ROOT)}" for file in ACTIONS}
    assert ours < used
    for action in used - ours:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert len(used) == len({action.split("@")[0] for action in used})


def test_a_failure_of_drift_is_not_lost_in_the_pipe() -> None:
    assert parsed(GITHUB / "drift.yml")["defaults"]["run"]["shell"] == "bash"


# The identity of GitLab's jobs


GCLOUD = """#!{python}
import json, os, pathlib, sys
called = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
words = [word for word in sys.argv[1:] if "=" not in word]
assert "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE" not in os.environ
pathlib.Path(called["output-file"]).write_text(json.dumps([words, called]))
"""
LOGIN = {
    "GOOGLE_ID_TOKEN": "opaque-token-of-the-job",
    "GOOGLE_PROVIDER": "projects/1/locations/global/workloadIdentityPools/forges/providers/gitlab",
    "GOOGLE_ACCOUNT": "preview@my-project.iam.gserviceaccount.com",
}


def google_login(folder: Path, without: str = "") -> subprocess.CompletedProcess[str]:
    """`make google-login`, with a gcloud that writes down how it was called."""
    gcloud = folder / "gcloud"
    gcloud.write_text(GCLOUD.format(python=shlex.quote(sys.executable)))
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
    words, options = json.loads(file.read_text())
    assert words == ["iam", "workload-identity-pools", "create-cred-config", LOGIN["GOOGLE_PROVIDER"]]
    assert options["service-account"] == LOGIN["GOOGLE_ACCOUNT"]
    assert Path(options["credential-source-file"]).read_text() == LOGIN["GOOGLE_ID_TOKEN"]
    assert {each.stat().st_mode & 0o077 for each in [file.parent, *file.parent.iterdir()]} == {0}


@pytest.mark.parametrize("name", LOGIN)
def test_what_is_missing_is_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    done = google_login(tmp_path, without=name)
    assert done.returncode and f"{name}: is not set; docs/merge-requests.md says" in done.stderr
    assert not (tmp_path / "google").exists()
