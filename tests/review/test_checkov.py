"""What checkov finds in what the stacks declare: each finding has a reason in reasons.yaml."""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from engine.project import ROOT
from tests import plans
from tests.review.declared import write

CHECKOV = ROOT / ".venv-checkov/bin/checkov"
REASONS = yaml.safe_load(Path(__file__).with_name("reasons.yaml").read_text())
FRAMEWORKS = ("kubernetes", "terraform_plan")

Findings = dict[str, set[str]]


def findings(folder: Path) -> tuple[Findings, dict[str, int]]:
    """The resources of each failed check, and the number of resources that each framework has looked at."""
    command = [CHECKOV, "--directory", folder, "--framework", *FRAMEWORKS, "--output", "json", "--quiet"]
    # Without an address it would ask its maker for texts about the checks.
    result = subprocess.run(
        [*command, "--compact", "--skip-download"], capture_output=True, text=True, check=False
    )
    failed: Findings = defaultdict(set)
    looked_at = {}
    for report in json.loads(result.stdout):
        assert not report["summary"]["parsing_errors"], result.stdout
        looked_at[report["check_type"]] = report["summary"]["resource_count"]
        for check in report["results"]["failed_checks"]:
            failed[check["check_id"]].add(check["resource"])
    return failed, looked_at


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not CHECKOV.exists():
        pytest.skip(f"there is no {CHECKOV.relative_to(ROOT)}: make test-review")
    folder = tmp_path_factory.mktemp("declared")
    for stack in plans.STACKS:
        settings = plans.known_settings(stack, imageUri=plans.IMAGE, alertEmail="me@example.com")
        write(plans.shipped(stack, **settings), stack, folder, images_are_known=True)
        # With an image of one's own there is no repository.
        write(plans.shipped(stack), f"{stack}-built", folder, images_are_known=False)
    return folder


def test_every_finding_has_a_reason_and_every_reason_a_finding(folder: Path) -> None:
    failed, looked_at = findings(folder)
    for check, resources in failed.items():
        reasoned = REASONS.get(check, {}).get("of", "")
        assert [name for name in sorted(resources) if not re.fullmatch(reasoned, name)] == [], check
    assert sorted(REASONS.keys() - failed.keys()) == []
    # It has read both forms.
    assert set(looked_at) == set(FRAMEWORKS) and min(looked_at.values()) > 50


def test_a_container_that_may_gain_privileges_is_found(tmp_path: Path, folder: Path) -> None:
    """The checks can fail: one of the pods is given what none has."""
    text = (folder / "serve.yaml").read_text()
    assert "allowPrivilegeEscalation: false" in text
    (tmp_path / "serve.yaml").write_text(
        text.replace("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true")
    )
    command = [CHECKOV, "--directory", tmp_path, "--framework", "kubernetes", "--check", "CKV_K8S_20"]
    result = subprocess.run([*command, "--skip-download"], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout
    assert "Deployment.llm.serving" in result.stdout
