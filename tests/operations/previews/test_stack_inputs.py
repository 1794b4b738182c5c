"""Which stacks a change of files can change, against what stacks really read."""

import ast
import re
import sys
from pathlib import Path

import pytest

from engine.project import ROOT, known_stacks
from operations.previews import stack_inputs
from rehearsal.session import Rehearsal
from tests.plans import mostly_slow

KNOWN = stack_inputs.scenarios()
# The tests' own stacks, and another one of the same scenario.
OWN = {"neutral": "neutral", "neutral-run": "neutral-run", "second": "neutral-run"}


@pytest.mark.parametrize(
    ("files", "stacks"),
    [
        ("Pulumi.second.yaml", ["second"]),
        ("stacks/scenarios/neutral_run.py", ["neutral-run", "second"]),
        ("workloads/neutral/job.yaml", ["neutral"]),
        ("workloads/torchrun/job.yaml", sorted(OWN)),
        ("workloads/vllm/serving.yaml", sorted(OWN)),
        ("workloads/finetune/run/trainer.py", sorted(OWN)),
        ("components/manifests/ingress-from-inside.yaml", sorted(OWN)),
        ("stacks/pins.py", sorted(OWN)),
        ("components/storage/bucket.py", sorted(OWN)),
        ("Pulumi.yaml", sorted(OWN)),
        ("requirements.txt", sorted(OWN)),
        ("README.md", []),
        ("docs/stacks/neutral.md", []),
        ("tests/stacks/test_neutral.py", []),
        ("rehearsal/session.py", []),
        ("operations/drift.py", []),
        ("tools/pulumi/go.mod", []),
        (
            "stacks/scenarios/neutral.py Pulumi.second.yaml workloads/neutral/job.yaml",
            ["neutral", "second"],
        ),
    ],
)
def test_a_file_changes_the_stacks_that_are_made_of_it(files: str, stacks: list[str]) -> None:
    assert stack_inputs.stacks_changed_by(files.split(), OWN) == stacks


def test_a_recipe_of_ones_own_its_rows_and_more_packages_are_inputs_of_the_stack_that_names_them(
    tmp_path: Path,
) -> None:
    for stack, recipe in (("mine", "./team/rows.yaml"), ("theirs", "gemma-3-4b-sql")):
        settings = f"config:\n  llm-stacks:scenario: neutral\n  llm-stacks:recipe: {recipe}\n"
        settings += f"  llm-stacks:extraRequirements: ./packages/{stack}.txt\n"
        (tmp_path / f"Pulumi.{stack}.yaml").write_text(settings)
    places = stack_inputs.own_places(tmp_path)
    known = dict.fromkeys(("mine", "theirs"), "neutral")
    for file in ("team/rows.yaml", "team/rows.jsonl", "packages/mine.txt"):
        assert stack_inputs.stacks_changed_by([file], known, places) == ["mine"]
    others = ["team/more/rows.jsonl", "rows.yaml", "packages/mine.in"]
    assert stack_inputs.stacks_changed_by(others, known, places) == []


opened: set[str] = set()
# An audit hook stays for good.
sys.addaudithook(lambda event, words: opened.add(str(words[0])) if event == "open" else None)


@pytest.mark.parametrize("stack", mostly_slow(known_stacks(), quick=["dev", "a4-accelerate"]))
def test_every_file_that_a_stack_reads_is_its_input(stack: str) -> None:
    opened.clear()
    with Rehearsal(stack) as rehearsal:
        rehearsal.preview()
    paths = {Path(file) for file in opened if file.startswith(str(ROOT))}
    read = {str(path.relative_to(ROOT)) for path in paths if path.suffix != ".pyc"}
    # Leaves out what the rehearsal itself reads, and the build's archive, which the program writes first.
    # Every stack imports the scenarios' modules and runs one. The next test is about them.
    inputs = {
        file
        for file in read
        if not file.startswith(("rehearsal/", "engine/", "tools/", ".", "tests/", "stacks/"))
    }
    assert f"Pulumi.{stack}.yaml" in inputs
    assert any(file.startswith("workloads/") for file in inputs)
    for file in inputs:
        assert stack in stack_inputs.stacks_changed_by([file], KNOWN), file


@pytest.mark.parametrize("scenario", sorted(set(KNOWN.values())))
def test_no_scenario_is_made_of_another_one(scenario: str) -> None:
    module = scenario.replace("-", "_")
    others = {scenario.replace("-", "_") for scenario in KNOWN.values()} - {module}
    nodes = ast.walk(ast.parse((ROOT / "stacks/scenarios" / f"{module}.py").read_text()))
    imports = [ast.unparse(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports and not set(re.findall(r"\w+", " ".join(imports))) & others
