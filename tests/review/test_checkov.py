"""What checkov finds in what the stacks declare: each finding has a reason in reasons.yaml."""

import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine import go_build
from engine.errors import EngineError
from engine.project import ROOT
from rehearsal.control_plane.kueue_release import CHART
from rehearsal.control_plane.programs import HELM, KUEUE
from tests import plans
from tests.review.declared import write
from tests.review.shapes import SHAPES

CHECKOV = ROOT / ".venv-checkov/bin/checkov"
REASONS = yaml.safe_load(Path(__file__).with_name("reasons.yaml").read_text())
FRAMEWORKS = ("kubernetes", "terraform_plan")
OF_CHART = "chart of Kueue"

# The resources of each failed check, by the shape and the check.
Findings = dict[str, dict[str, set[str]]]


def reports(folder: Path, *words: str) -> list[dict[str, Any]]:
    """What checkov says of the files of a folder, for each framework."""
    command = [CHECKOV, "--directory", folder, "--framework", *FRAMEWORKS, "--output", "json", "--quiet"]
    # Without an address it would ask its maker for texts about the checks.
    result = subprocess.run(
        [*command, "--compact", "--skip-download", *words], capture_output=True, text=True, check=False
    )
    printed = json.loads(result.stdout)
    return printed if isinstance(printed, list) else [printed]


def chart() -> str:
    """The objects of Kueue's chart with the values of a stack, without the kinds that it declares."""
    (release,) = plans.of_type(plans.shipped("l4-kueue", imageUri=plans.IMAGE), ":Release")
    folder = go_build.TOOLS / "kueue/chart"
    command = ["helm", "template", CHART, str(folder), "--namespace=kueue-system", "--values=-"]
    result = subprocess.run(
        [go_build.path_of(command[0]), *command[1:]],
        input=yaml.safe_dump(release.inputs["values"]),
        capture_output=True,
        text=True,
        check=True,
    )
    objects = yaml.load_all(result.stdout, Loader=yaml.CSafeLoader)
    return yaml.safe_dump_all(tree for tree in objects if tree and "CustomResource" not in tree["kind"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of every shape, each in a folder with its name."""
    if not CHECKOV.exists():
        pytest.skip(f"there is no {CHECKOV.relative_to(ROOT)}: make test-review")
    folder = tmp_path_factory.mktemp("declared")
    for shape, (stacks, settings) in SHAPES.items():
        (folder / shape).mkdir()
        for stack in stacks:
            plan = plans.shipped(stack, **settings(stack))
            is_known = "imageUri" in settings(stack) or "imageUri" not in plans.keys_of_stack(stack)
            write(plan, stack, folder / shape, images_are_known=is_known)
    try:
        go_build.build([HELM, KUEUE], print)
    except EngineError:
        return folder
    (folder / OF_CHART).mkdir()
    (folder / OF_CHART / "kueue.yaml").write_text(chart())
    return folder


@pytest.fixture(scope="module")
def findings(folder: Path) -> Findings:
    findings: Findings = defaultdict(lambda: defaultdict(set))
    looked_at = {}
    for report in reports(folder):
        assert not report["summary"]["parsing_errors"], report["summary"]
        looked_at[report["check_type"]] = report["summary"]["resource_count"]
        for check in report["results"]["failed_checks"]:
            shape = check["file_path"].split("/")[1]
            findings[shape][check["check_id"]].add(check["resource"])
    # It has read both forms.
    assert set(looked_at) == set(FRAMEWORKS) and min(looked_at.values()) > 50
    return findings


@pytest.mark.parametrize("shape", [*SHAPES, OF_CHART])
def test_every_finding_has_a_reason(shape: str, folder: Path, findings: Findings) -> None:
    if not (folder / shape).exists():
        pytest.skip(go_build.missing([HELM, KUEUE]))
    for check, resources in findings[shape].items():
        reasoned = REASONS.get(check, {}).get("of", "")
        assert [name for name in sorted(resources) if not re.fullmatch(reasoned, name)] == [], check


def test_every_reason_has_a_finding(folder: Path, findings: Findings) -> None:
    if not (folder / OF_CHART).exists():
        pytest.skip(go_build.missing([HELM, KUEUE]))
    for check, reason in REASONS.items():
        names = {name for of_shape in findings.values() for name in of_shape[check]}
        assert [name for name in names if re.fullmatch(reason["of"], name)], check


def test_a_container_that_may_gain_privileges_is_found(tmp_path: Path, folder: Path) -> None:
    """The checks can fail: one of the pods is given what none has."""
    text = (folder / "as shipped/serve.yaml").read_text()
    assert "allowPrivilegeEscalation: false" in text
    (tmp_path / "serve.yaml").write_text(
        text.replace("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true")
    )
    (report,) = reports(tmp_path, "--check", "CKV_K8S_20")
    assert "Deployment.llm.serving" in {check["resource"] for check in report["results"]["failed_checks"]}
