"""Renovate finds everything that is pinned, and moves together what belongs together."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.project import ROOT

FILE = ROOT / "renovate.json"
CONFIG: dict[str, Any] = json.loads(FILE.read_text())
LOCKED = sorted(
    path.with_suffix(".txt")
    for folder in (".", "workloads/finetune", "workloads/maxtext")
    for path in (ROOT / folder).glob("*.in")
)
# What Renovate 44 takes in the header of a locked file; it gives up on any other option.
# lib/modules/manager/pip-compile/common.ts
UV_OPTIONS = {"--universal", "--generate-hashes", "--python-version", "--output-file", "--constraint"}


def pattern(text: str) -> re.Pattern[str]:
    """JavaScript's way to write a named group, in Python's."""
    return re.compile(text.replace("(?<", "(?P<"))


def found(file: str) -> list[dict[str, str]]:
    """What the custom managers see in a file."""
    matches = []
    for manager in CONFIG["customManagers"]:
        if any(re.search(each.strip("/"), file) for each in manager["managerFilePatterns"]):
            for text in manager["matchStrings"]:
                matches += [match.groupdict() for match in pattern(text).finditer((ROOT / file).read_text())]
    return matches


def pins() -> dict[str, str]:
    """Every constant of stacks/pins.py."""
    tree = ast.parse((ROOT / "stacks" / "pins.py").read_text())
    return {
        node.target.id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value
    }


def rule_of(package: str) -> str:
    """The group that a package's updates are in."""
    for rule in CONFIG["packageRules"]:
        for each in rule["matchPackageNames"] if "groupName" in rule else ():
            if re.fullmatch(re.escape(each).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"), package):
                return rule["groupName"]
    return ""


def test_the_file_follows_the_published_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.renovate", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_pin_is_found_with_its_value() -> None:
    seen = found("stacks/pins.py")
    values = pins()
    assert values
    assert len(seen) == len(values), "every constant of stacks/pins.py has its line `# renovate: ...`"
    for name, value in values.items():
        (match,) = [
            each
            for each in seen
            if value in (each.get("currentValue"), f"{_image(each)}@{each.get('currentDigest')}")
        ]
        assert match["datasource"] in ("pypi", "docker", "go"), name


def _image(match: dict[str, str]) -> str:
    return f"docker.io/{match['depName']}"


@pytest.mark.parametrize("workload", ["finetune", "maxtext"])
def test_the_base_image_is_found(workload: str) -> None:
    file = f"workloads/{workload}/Dockerfile"
    (match,) = found(file)
    line = next(line for line in (ROOT / file).read_text().splitlines() if "BASE=" in line)
    assert line == f"ARG BASE={match['depName']}:{match['currentValue']}@{match['currentDigest']}"


@pytest.mark.parametrize("file", LOCKED, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_locked_file_is_found_and_can_be_locked_by_renovate(file: Path) -> None:
    name = str(file.relative_to(ROOT))
    patterns = CONFIG["pip-compile"]["managerFilePatterns"]
    assert [each for each in patterns if re.search(each.strip("/"), name)]
    _, command = file.read_text().splitlines()[:2]
    words = command.removeprefix("#").split()
    assert words[:3] == ["uv", "pip", "compile"]
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert {"--generate-hashes", "--output-file"} <= options <= UV_OPTIONS
    assert f"--output-file={file.name}" in words
    assert words[-1] == file.with_suffix(".in").name


def test_make_lock_runs_the_command_of_every_locked_file() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (options,) = re.findall(r"^LOCK := \S+/uv pip compile --quiet --upgrade (.*)$", makefile, re.MULTILINE)
    called = set(re.findall(r"^\t(?:cd (\S+) && )?\$\(LOCK\) (.*)", makefile, re.MULTILINE))
    for file in LOCKED:
        folder = str(file.parent.relative_to(ROOT)).removeprefix(".")
        (rest,) = [rest for where, rest in called if where == folder and f"={file.name} " in rest]
        assert file.read_text().splitlines()[1] == f"#    uv pip compile {options} {rest}"


def test_the_engine_its_sdk_and_the_providers_move_together() -> None:
    required = re.findall(r"(github\.com/pulumi/\S+) v", (ROOT / "tools/pulumi/go.mod").read_text())
    sdks = re.findall(r"^(pulumi[\w-]*)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert {"pulumi", "pulumi-gcp", "pulumi-kubernetes"} <= set(sdks)
    assert required
    assert {rule_of(package) for package in (*required, *sdks)} == {"pulumi"}


def test_kueue_and_what_the_tests_run_of_it_move_together() -> None:
    names = {match["depName"] for match in found("stacks/pins.py") if "kueue" in match["depName"]}
    assert names == {"sigs.k8s.io/kueue"}
    assert "sigs.k8s.io/kueue v" in (ROOT / "tools/kueue/go.mod").read_text()
    assert rule_of("sigs.k8s.io/kueue") == "kueue"


def test_the_pin_of_ray_moves_with_the_image() -> None:
    assert "ray" in {match["depName"] for match in found("stacks/pins.py")}
    assert rule_of("ray") == "ray"


def test_what_else_is_pinned_has_a_manager() -> None:
    assert {"github-actions", "gitlabci", "gomod", "dockerfile"} <= set(CONFIG["enabledManagers"])
    assert len(list((ROOT / "tools").glob("*/go.mod"))) >= 5
