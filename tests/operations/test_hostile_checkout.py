"""GitLab's job that comments runs main's code and nothing that a merge request left in its folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from engine.project import ROOT
from tests.operations.previews.forge_server import COMMIT, ForgeServer

JOB = yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())["comment"]
MARK = "the-code-of-the-merge-request-ran"
PYTHON = f"open({MARK!r}, 'w').close()\n"
HOSTILE = {
    "Makefile": f"comment-gitlab:\n\ttouch {MARK}\n",
    "GNUmakefile": f"comment-gitlab:\n\ttouch {MARK}\n",
    "pipelines.mk": f"comment-gitlab:\n\ttouch {MARK}\n",
    "sitecustomize.py": PYTHON,
    "usercustomize.py": PYTHON,
    "json.py": PYTHON,
    "operations/__init__.py": PYTHON,
    "operations/__main__.py": PYTHON,
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "json"\nbackend-path = ["."]\n',
    ".venv/bin/python": f"#!/bin/sh\ntouch {MARK}\n",
    ".git/config": f"[core]\n\tfsmonitor = touch {MARK}\n\tsshCommand = touch {MARK}\n",
    "main/Makefile": f"comment-gitlab:\n\ttouch {MARK}\n",
}


@pytest.fixture
def main_branch(tmp_path: Path) -> Path:
    """A repository whose branch `main` has the files of this one, and an environment that is ready."""
    repository = tmp_path / "repository"
    repository.mkdir()
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (repository / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, repository / name)
    author = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    for words in (
        ["init", "--initial-branch", "main"],
        ["add", "."],
        [*author, "commit", "--message", "one"],
    ):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)
    return repository


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The folder that the merge request's jobs have left on the runner."""
    folder = tmp_path / "builds"
    for name, text in HOSTILE.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    return folder


@pytest.fixture
def forge() -> Iterator[ForgeServer]:
    with ForgeServer() as server:
        server.saved = {"preview": {"commit": COMMIT, "stacks": []}}
        yield server


def prepared_git(folder: Path) -> Path:
    """A `git` that puts the environment of this checkout into a clone: it need not be installed again."""
    file = folder / "git"
    environment = ROOT / ".venv"
    file.write_text(
        f"""#!/bin/sh -e
{shutil.which("git")} "$@"
mkdir main/.venv
for entry in {environment}/*; do ln -s "$entry" main/.venv/; done
touch main/.venv/.ready
"""
    )
    file.chmod(0o755)
    return file


def test_hostile_files_of_a_merge_request_do_not_run_where_the_token_is(
    main_branch: Path, checkout: Path, forge: ForgeServer, tmp_path: Path
) -> None:
    clones, programs = tmp_path / "opt", tmp_path / "bin"
    clones.mkdir()
    programs.mkdir()
    prepared_git(programs)
    script = "\n".join(JOB["script"]).replace("cd /opt\n", f"cd {clones}\n")
    assert f"cd {clones}" in script
    environment = {
        **os.environ,
        **forge.environment,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "CI_COMMIT_SHA": COMMIT,
        "CI_DEFAULT_BRANCH": "main",
        "CI_PROJECT_DIR": str(checkout),
        "CI_REPOSITORY_URL": main_branch.as_uri(),
    }
    process = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    (body,) = forge.bodies
    assert "No stack" in body
    assert [*tmp_path.rglob(MARK)] == []
