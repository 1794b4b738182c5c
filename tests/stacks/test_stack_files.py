"""What happens to a shipped stack file that a user changes and a new version changes too."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from engine import lookup
from engine.project import ROOT, known_stacks

LAST_LINE = "  # Your values follow. New versions of the project change nothing below this line."


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a4-ray after a user has set values with Pulumi's own commands."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{tmp_path}")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "a passphrase")
    for name in ("Pulumi.yaml", "Pulumi.a4-ray.yaml"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    engine = lookup.find(print)
    engine.output(["stack", "init", "a4-ray"], tmp_path)
    engine.output(["config", "set", "gcp:project", "my-project"], tmp_path)
    engine.output(["config", "set", "capacity.reservation", "my-reservation"], tmp_path)
    engine.output(["config", "set", "--secret", "hfToken"], tmp_path, text="hf_token\n")
    return tmp_path / "Pulumi.a4-ray.yaml"


@pytest.mark.parametrize("stack", known_stacks())
def test_the_users_values_have_the_end_of_each_stack_file(stack: str) -> None:
    assert (ROOT / f"Pulumi.{stack}.yaml").read_text().endswith(f"\n{LAST_LINE}\n")


@pytest.mark.parametrize("stack", known_stacks())
def test_values_are_quoted_as_pulumi_quotes_them(stack: str) -> None:
    values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())["config"].values()
    assert {type(value) for value in values} <= {str, list}


def test_pulumi_appends_the_users_values_and_changes_no_other_line(user_file: Path) -> None:
    shipped = (ROOT / user_file.name).read_text()
    text = user_file.read_text()
    assert text.startswith(shipped)
    added = text.removeprefix(shipped)
    assert "gcp:project: my-project" in added and "hf_token" not in added


def test_a_new_version_merges_with_the_users_values_without_a_conflict(
    user_file: Path, tmp_path: Path
) -> None:
    shipped = ROOT / user_file.name
    new_version = tmp_path / "new.yaml"
    settings, last_line = shipped.read_text().rsplit(f"{LAST_LINE}\n", 1)
    changed = re.sub(r"(?m)^(  llm-stacks:\S+): .*$", r"\1: changed", settings)
    new_version.write_text(f"{changed}  llm-stacks:another: value\n{LAST_LINE}\n{last_line}")
    merged = subprocess.run(
        ["git", "merge-file", "--stdout", user_file, shipped, new_version],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
    )
    assert not merged.returncode, merged.stdout
    assert "llm-stacks:another: value" in merged.stdout and "gcp:project: my-project" in merged.stdout
