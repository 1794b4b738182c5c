"""The pipelines of both forges: valid, pinned, without logic of their own, and without needless rights."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.project import ROOT
from operations.__main__ import COMMANDS

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = sorted((ROOT / ".github" / "actions").glob("*/action.yml"))
GITLAB = ROOT / ".gitlab-ci.yml"
SCHEMAS = {
    **{file: "github-workflows" for file in WORKFLOWS},
    **{file: "github-actions" for file in ACTIONS},
    GITLAB: "gitlab-ci",
}
MAKEFILE = (ROOT / "Makefile").read_text() + (ROOT / "pipelines.mk").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*##", MAKEFILE, re.MULTILINE))


def parsed(file: Path) -> dict[Any, Any]:
    return yaml.safe_load(file.read_text())


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    """The jobs of a workflow or of GitLab's pipeline."""
    content = parsed(file)
    if file != GITLAB:
        return content["jobs"]
    return {name: job for name, job in content.items() if isinstance(job, dict) and "script" in job}


def commands(file: Path) -> Iterator[str]:
    """Every line that a job runs."""
    for job in jobs(file).values():
        yield from (step["run"] for step in job.get("steps", ()) if "run" in step)
        yield from job.get("script", ())
    if file == GITLAB:
        for part in parsed(file).values():
            if isinstance(part, dict):
                yield from part.get("before_script", ())


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
    """What a job does can then be done, and tested, without a forge."""
    for line in commands(file):
        if line.startswith("apt-get update && apt-get install"):
            continue
        target = re.fullmatch(r'make ([a-z-]+)(?: \| tee --append "\$GITHUB_STEP_SUMMARY")?', line)
        assert target, line
        assert target[1] in TARGETS, line


def test_every_command_that_make_calls_exists() -> None:
    called = re.findall(r"-m operations ([a-z-]+)", MAKEFILE)
    assert {"preview-comment", "drift", "google-login"} <= set(called) <= set(COMMANDS)


def test_an_action_of_somebody_else_is_pinned_by_commit_and_has_one_version() -> None:
    used = {
        action for file in (*WORKFLOWS, *ACTIONS) for action in re.findall(r"uses: (.*)", file.read_text())
    }
    ours = {f"./{file.parent.relative_to(ROOT)}" for file in ACTIONS}
    assert ours < used
    for action in used - ours:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    assert len(used) == len({action.split("@")[0] for action in used})


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_nothing_a_stranger_writes_reaches_a_shell(file: Path) -> None:
    """Expressions are put into the text of a command before the shell reads it."""
    assert not [line for line in commands(file) if "${{" in line]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_no_job_keeps_the_token_of_the_checkout_or_runs_for_ever(file: Path) -> None:
    assert parsed(file)["permissions"] == {"contents": "read"}
    for job in jobs(file).values():
        assert job["timeout-minutes"] <= 350
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_what_runs_a_merge_requests_code_can_write_nothing() -> None:
    file = ROOT / ".github" / "workflows" / "merge-request.yml"
    # `on` is a truth value to YAML 1.1.
    assert set(parsed(file)[True]) == {"pull_request"}
    for name, job in jobs(file).items():
        rights = job.get("permissions", {"contents": "read"})
        assert rights == {"contents": "read", **({"id-token": "write"} if name == "preview-cloud" else {})}
    assert "secrets." not in file.read_text()


def test_what_can_write_a_comment_runs_the_main_branchs_code() -> None:
    file = ROOT / ".github" / "workflows" / "comment.yml"
    (job,) = jobs(file).values()
    (checkout,) = [step for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert set(parsed(file)[True]) == {"workflow_run"}
    assert parsed(file)[True]["workflow_run"]["workflows"] == [
        parsed(ROOT / ".github" / "workflows" / "merge-request.yml")["name"]
    ]
    assert set(checkout["with"]) == {"persist-credentials"}
    assert "id-token" not in job["permissions"]


def test_no_key_of_google_is_stored() -> None:
    for file in (GITLAB, *WORKFLOWS):
        assert not re.search(r"credentials_json|service_account_key|GOOGLE_CREDENTIALS", file.read_text())


def test_forks_get_a_preview_without_an_identity() -> None:
    github = jobs(ROOT / ".github" / "workflows" / "merge-request.yml")
    fork = "github.event.pull_request.head.repo.full_name != github.repository"
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert fork in github["preview"]["if"]
    assert "permissions" not in github["preview"]
    assert own in github["preview-cloud"]["if"]
    gitlab = jobs(GITLAB)
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID != $CI_PROJECT_ID" in gitlab["preview"]["rules"][1]["if"]
    assert (
        "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_PROJECT_ID" in gitlab["preview-cloud"]["rules"][1]["if"]
    )
    assert ".google" not in gitlab["preview"]["extends"]


def test_up_is_by_hand_from_the_main_branch_with_an_approval_and_one_at_a_time() -> None:
    file = ROOT / ".github" / "workflows" / "up.yml"
    job = jobs(file)["up"]
    assert set(parsed(file)[True]) == {"workflow_dispatch"}
    assert job["if"] == "github.ref == 'refs/heads/main'"
    assert job["environment"] == "production"
    assert parsed(file)["concurrency"] == {"group": "up-${{ inputs.stack }}", "cancel-in-progress": False}
    up = jobs(GITLAB)["up"]
    (rule,) = [rule for rule in up["rules"] if rule["when"] != "never"]
    assert rule["when"] == "manual"
    assert '$CI_COMMIT_REF_PROTECTED == "true"' in rule["if"]
    assert up["resource_group"] == "up-$STACK"
    assert up["interruptible"] is False
    assert up["environment"]["name"].startswith("production")


def test_up_takes_the_name_of_any_stack() -> None:
    """Which one is none, `make` says: tests/test_makefile.py."""
    github = parsed(ROOT / ".github" / "workflows" / "up.yml")[True]["workflow_dispatch"]["inputs"]["stack"]
    assert github["type"] == "string" and github["required"] is True
    assert parsed(GITLAB)["variables"]["STACK"]["value"] == ""


def test_one_preview_at_a_time_of_a_merge_request() -> None:
    github = parsed(ROOT / ".github" / "workflows" / "merge-request.yml")["concurrency"]
    assert "pull_request.number" in github["group"]
    assert github["cancel-in-progress"] is True
    gitlab = parsed(GITLAB)
    assert gitlab["workflow"]["auto_cancel"] == {"on_new_commit": "interruptible"}
    assert gitlab["default"]["interruptible"] is True
    assert gitlab["comment"]["resource_group"] == "comment-$CI_MERGE_REQUEST_IID"


def test_drift_is_looked_for_every_day_with_the_identity_that_only_reads() -> None:
    drift = parsed(ROOT / ".github" / "workflows" / "drift.yml")
    assert drift[True]["schedule"]
    assert "GOOGLE_PREVIEW_ACCOUNT" in str(drift["jobs"]["drift"]["steps"])
    gitlab = jobs(GITLAB)["drift"]
    assert gitlab["variables"] == {"GOOGLE_ACCOUNT": "$GOOGLE_PREVIEW_ACCOUNT"}
    assert 'CI_PIPELINE_SOURCE == "schedule"' in gitlab["rules"][0]["if"]


def test_a_failure_of_drift_is_not_lost_in_the_pipe() -> None:
    assert parsed(ROOT / ".github" / "workflows" / "drift.yml")["defaults"]["run"]["shell"] == "bash"
