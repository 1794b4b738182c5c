"""`make` and the checks of every commit: a stack's name may be any text, and a token is found."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from engine.project import ROOT, known_stacks
from tests.checkout_files import checkout_files
from tests.docs.documents import DOCUMENTS


def known_stack(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--silent", "known-stack"],
        cwd=ROOT,
        env={**os.environ, "STACK": name},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_stack_is_what_has_a_stack_file() -> None:
    for stack in known_stacks():
        assert not known_stack(stack).returncode


@pytest.mark.parametrize(
    "name", ["", "%", "a5-ray", "dev a4-ray", "dev\n", "$(shell touch {0})", "`touch {0}`", '"; touch {0}; "']
)
def test_a_name_of_no_stack_is_rejected_in_one_line_and_never_run(name: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = known_stack(name.format(ran))
    message, make = done.stderr.splitlines()
    assert (
        done.returncode and message.endswith(f"; there are: {' '.join(known_stacks())}") and "Error" in make
    )
    assert not ran.exists()


def new_stack(folder: Path, name: str, template: str) -> subprocess.CompletedProcess[str]:
    """`make new-stack` in a folder with the project's own stack files."""
    for path in (ROOT / "Makefile", ROOT / "pipelines.mk", *ROOT.glob("Pulumi.*.yaml")):
        if not (folder / path.name).exists():
            shutil.copy(path, folder)
    return subprocess.run(
        ["make", "--silent", "new-stack"],
        cwd=folder,
        env={**os.environ, "NAME": name, "FROM": template},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_new_stack_has_the_settings_of_another_and_their_comments(tmp_path: Path) -> None:
    done = new_stack(tmp_path, "mine", "a4-ray")
    assert done.stdout == "Pulumi.mine.yaml has the settings of a4-ray. Next: pulumi stack init mine\n"
    copy = tmp_path / "Pulumi.mine.yaml"
    assert copy.read_text() == (ROOT / "Pulumi.a4-ray.yaml").read_text()
    copy.write_text("mine")
    again = new_stack(tmp_path, "mine", "dev")
    assert again.returncode and "Pulumi.mine.yaml is there already" in again.stderr
    assert copy.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "template", "problem"),
    [
        ("", "dev", "NAME is the name of the new stack"),
        ("../mine", "dev", "NAME is the name of the new stack"),
        ("$(shell touch ran)", "dev", "NAME is the name of the new stack"),
        ("mine", "$(shell touch ran)", "no stack shelltouchran; there are: "),
        ("mine", "", "no stack ; there are: "),
    ],
)
def test_a_new_stack_needs_a_name_and_a_stack_to_copy(
    name: str, template: str, problem: str, tmp_path: Path
) -> None:
    done = new_stack(tmp_path, name, template)
    assert done.returncode and problem in done.stderr
    assert not (tmp_path / "ran").exists() and not (tmp_path / "Pulumi.mine.yaml").exists()


@pytest.mark.parametrize(
    ("python", "message"), [("nope", "there is no nope"), ("false", "false is older than 3.11")]
)
def test_a_python_that_is_missing_is_not_called_too_old(python: str, message: str, tmp_path: Path) -> None:
    for name in ("Makefile", "pipelines.mk", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    words = ["make", "--silent", f"PYTHON={python}", ".venv/.ready"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    line, make = done.stderr.splitlines()
    assert line == f"{message}; run make with PYTHON=python3.11 or newer" and "Error 1" in make


# Plays Python: `-m venv` makes an environment whose pip and uv write down what they are asked for.
FAKE_PYTHON = """#!/bin/sh
[ "$2" = venv ] || exit 0
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "pip $@" >>calls; cat "$7" >installed\\n' >.venv/bin/python
printf '#!/bin/sh\\necho "uv $@" >>calls\\n' >.venv/bin/uv
chmod +x .venv/bin/python .venv/bin/uv
"""


def test_pip_installs_only_the_locked_uv_which_installs_the_rest_and_checks_hashes(tmp_path: Path) -> None:
    for name in ("Makefile", "pipelines.mk", "requirements-dev.txt"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(0o755)
    subprocess.run(["make", "--silent", f"PYTHON={python}", ".venv/.ready"], cwd=tmp_path, check=True)
    pip, uv = (tmp_path / "calls").read_text().splitlines()
    assert pip == "pip -m pip install --quiet --require-hashes -r .venv/uv.txt"
    assert uv == "uv pip install --quiet --python .venv/bin/python --require-hashes -r requirements-dev.txt"
    requirement, *hashes = (tmp_path / "installed").read_text().replace("\\\n", "").split()
    assert re.fullmatch(r"uv==[\d.]+", requirement) and hashes
    assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", text) for text in hashes)


def test_a_token_of_the_hub_is_found_before_it_is_committed(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(f"hfToken: hf_{'a1B2' * 9}\n")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "detect_secrets.pre_commit_hook",
            "--baseline",
            ".secrets.baseline",
            str(file),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "Token of Hugging Face" in done.stdout


def test_make_test_says_of_every_suite_what_it_is_and_how_long_it_takes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (suites,) = re.findall(r"^test: (.*?) ##", makefile, re.MULTILINE)
    for suite in suites.split():
        (line,) = re.findall(rf"^{suite}: .*## .*\n\t(.*)$", makefile, re.MULTILINE)
        assert re.fullmatch(r'@echo "== .+: .*\bminutes? on two idle cores"', line)


def test_a_commit_is_checked_by_what_make_check_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    makefile = (ROOT / "Makefile").read_text()
    (check,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    commands = re.findall(r"\$\(BIN\)/([\w-]+)", check)
    assert commands.count("python") == 1 and "-m deptry" in check
    assert {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in hooks} == set(commands)
    (prose,) = [hook for hook in hooks if hook["entry"] == ".venv/bin/python -m tests.docs.prose"]
    names = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
    assert [name for name in names if not re.search(prose["files"], name)] == []


def test_no_room_imports_tests() -> None:
    rooms = [path.parent for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"]
    files = [file for room in rooms for file in room.rglob("*.py")]
    assert len(files) > 200
    assert not [file for file in files if "tests" in imported_packages(file)]


def imported_packages(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return {name.partition(".")[0] for name in names}


def test_the_test_files_of_one_suite_have_names_of_their_own() -> None:
    """pytest imports a test file by its name alone, and ends at the second file with that name."""
    apart = {"control_plane", "maxtext", "pods", "serving", "workloads"}
    files = [path.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    names = Counter(file.name for file in files if file.parts[0] not in apart)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_of_code_has_more_than_400_lines() -> None:
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name in checkout_files("*.py")}
    assert len(lengths) > 400
    assert not {name: lines for name, lines in lengths.items() if lines > 400}


def test_no_function_has_more_than_60_lines() -> None:
    lengths = {
        f"{name}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name in checkout_files("*.py")
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(lengths) > 4000
    assert not {name: lines for name, lines in lengths.items() if lines > 60}
