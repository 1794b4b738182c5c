"""What a reader of the code may rely on: few files behind a scenario, small folders, typed rules."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import stacks
from engine.project import ROOT, known_stacks
from stacks.settings.model import ConfigModel, places_left_out, places_of, rules_of, topics_asked, topics_of
from tests.checkout_files import checkout_files

SCENARIOS = sorted(stacks.scenario_modules())
# The folders of the trainer: each may import those before it.
TRAINER_FOLDERS = ("settings", "storage", "rows", "model", "results", "run")


def settings_of(scenario: str) -> type[ConfigModel]:
    return stacks.scenario_modules()[scenario].Settings


def models_of(scenario: str) -> set[type[ConfigModel]]:
    """The classes that a reader of a scenario's `Settings` has to know."""
    model = settings_of(scenario)
    return {
        kind
        for owner in (model, *topics_of(model).values())
        for kind in owner.__mro__
        if issubclass(kind, ConfigModel)
    }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_settings_of_a_scenario_are_at_most_9_classes_in_8_files(scenario: str) -> None:
    models = models_of(scenario)
    assert len(models) <= 9
    assert len({model.__module__ for model in models}) <= 8


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_scenario_imports_at_most_12_modules_of_stacks(scenario: str) -> None:
    file = ROOT / "stacks/scenarios" / f"{scenario.replace('-', '_')}.py"
    modules = {
        node.module
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("stacks")
    }
    assert len(modules) <= 12


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_key_belongs_to_one_topic_and_every_rule_to_a_key(scenario: str) -> None:
    model = settings_of(scenario)
    # It raises an error if two topics have the same key.
    places = places_of(model)
    topics = topics_of(model)
    assert {place.topic for place in places.values()} <= {"", *topics}
    for owner in (model, *topics.values()):
        for rule in rules_of(owner):
            assert rule.key in places | places_left_out(model)
            assert all(
                any(issubclass(topic, kind) for topic in topics.values())
                for kind in topics_asked(rule.method)
            )


def test_no_rule_reads_another_field_by_its_name_as_a_string() -> None:
    for name in checkout_files("stacks/*.py"):
        text = (ROOT / name).read_text()
        assert "ValidationInfo" not in text and "info.data" not in text, name


def test_no_folder_of_code_has_more_than_16_files() -> None:
    names = [name for name in checkout_files("*.py") if not name.startswith("tests/")]
    folders = Counter(str(Path(name).parent) for name in names if not name.endswith("__init__.py"))
    assert len(folders) > 30
    assert {folder: count for folder, count in folders.items() if count > 16} == {}


def test_no_folder_of_the_trainer_imports_one_that_stands_above_it() -> None:
    trainer = ROOT / "workloads/finetune"
    assert {path.parent.name for path in trainer.glob("*/__init__.py")} == {*TRAINER_FOLDERS}
    modules = [(folder, path) for folder in TRAINER_FOLDERS for path in (trainer / folder).glob("*.py")]
    arrows = {
        (folder, part)
        for folder, path in modules
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("finetune.")
        for part in [str(node.module).split(".")[1]]
    }
    rank = {folder: number for number, folder in enumerate(TRAINER_FOLDERS)}
    assert ("run", "results") in arrows
    assert {arrow for arrow in arrows if rank.get(arrow[1], len(rank)) > rank[arrow[0]]} == set()


@pytest.mark.parametrize(("package", "others"), [("shared", set()), ("conversations", {"shared"})])
def test_what_the_trainers_share_imports_no_trainer(package: str, others: set[str]) -> None:
    """Containers have these folders on the path, so import-linter does not see what they import."""
    imported = {
        module.split(".")[0]
        for path in (ROOT / "workloads" / package).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for module in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [name.name for name in node.names]
            if isinstance(node, ast.Import)
            else []
        )
    }
    assert package in imported
    ours = {path.parent.name for path in (ROOT / "workloads").rglob("__init__.py")}
    assert imported & ours == {package} | others


def test_a_component_is_in_the_folder_of_its_part() -> None:
    loose = [path.name for path in (ROOT / "components").glob("*.py") if path.name != "__init__.py"]
    assert loose == []


def test_no_test_asks_which_stack_it_is() -> None:
    """A stranger's scenario has another name. Tests ask the plan or the keys, or are about one stack."""
    comparisons = {
        f"{name}:{node.lineno}": ast.unparse(node)
        for name in checkout_files("tests/*.py")
        for node in ast.walk(ast.parse((ROOT / name).read_text()))
        if isinstance(node, ast.Compare) and names_of_stacks(node)
    }
    assert comparisons == {}


def names_of_stacks(comparison: ast.Compare) -> set[str]:
    """The stacks with which the variable `stack` or `scenario` is compared."""
    sides = [comparison.left, *comparison.comparators]
    if not any(isinstance(side, ast.Name) and side.id in ("stack", "scenario") for side in sides):
        return set()
    words = {str(node.value) for side in sides for node in ast.walk(side) if isinstance(node, ast.Constant)}
    return words & {*known_stacks()}
