"""`make test-near`: every module has tests near it, and few of them."""

import subprocess
from pathlib import Path

import pytest

from engine.project import ROOT
from tests import near

_BY_HAND = "a benchmark, which people run by hand"
# Modules that no test is near, and why.
UNTESTED = {
    "benchmarks/rehearsal.py": _BY_HAND,
    "benchmarks/serving/__main__.py": _BY_HAND,
    "benchmarks/serving/tune.py": _BY_HAND,
    "benchmarks/training/real_size.py": _BY_HAND,
    "bootstrap/__main__.py": "a Pulumi program of three lines, which calls bootstrap/program.py",
    "docs_generator/__main__.py": "writes the pages that the tests compare",
    "engine/__main__.py": "prints what engine/lookup.py finds",
    "workloads/__init__.py": "puts the folder on the path, for all tests that read recipes",
    "workloads/capacity_keeper/__main__.py": "the loop around modules that have tests",
}


def test_every_module_has_tests_near_it_or_a_reason_why_not() -> None:
    assert len(near.code_files()) > 350
    nearest = {file: near.near(file) for file in near.code_files()}
    assert {file for file, entries in nearest.items() if not entries} == set(UNTESTED)
    assert max(map(len, nearest.values())) <= near.MOST


@pytest.mark.parametrize(
    ("file", "nearest"),
    [
        ("components/image/image.py", "tests/components/test_image.py"),
        ("workloads/finetune/rows/prefix.py", "tests/workloads/test_speed.py"),
        ("workloads/maxtext/maxtext_driver/recipe.py", "tests/maxtext/test_recipe.py"),
        ("operations/checks/key.py", "tests/operations/test_preflight_key.py"),
        ("engine/build_progress.py", "tests/engine/test_build_progress.py"),
        ("rehearsal/pods/life.py", "tests/rehearsal/pods/test_life.py"),
        ("components/manifests/ingress-to-metrics.yaml", "tests/pods/test_network_policies.py"),
    ],
)
def test_the_nearest_test_has_the_name_of_the_file_or_uses_it(file: str, nearest: str) -> None:
    assert near.near(file)[0].file == nearest


def test_a_module_without_a_test_of_its_own_has_those_of_what_imports_it() -> None:
    entries = near.near("engine/recorder.py")
    assert entries and all(entry.reason.startswith("is near ") for entry in entries)


def test_tests_run_in_the_environment_of_their_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "call", lambda words, cwd: calls.append([*map(str, words)]) or 0)
    monkeypatch.setattr(Path, "exists", lambda _path: True)
    assert near.run(["tests/workloads/test_public_rows.py", "tests/test_near.py"]) == 0
    assert calls == [
        [f"{ROOT}/.venv-training/bin/python", "-m", "pytest", "tests/workloads/test_public_rows.py"],
        [f"{ROOT}/.venv/bin/python", "-m", "pytest", "tests/test_near.py"],
    ]


def test_a_file_that_is_not_there_and_an_environment_that_is_not_made_are_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert near.run(["components/nothing.py"]) == 2
    assert "there is no file components/nothing.py" in capsys.readouterr().err
    monkeypatch.setattr(Path, "exists", lambda path: ".venv-training" not in str(path))
    assert near.run(["tests/workloads/test_public_rows.py"]) == 2
    assert "there is no .venv-training; run `make setup` first" in capsys.readouterr().err
