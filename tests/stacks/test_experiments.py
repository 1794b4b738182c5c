"""A second experiment: another recipe, other values of it, or a name, and what that does to the runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.plan import messages
from engine.project import ROOT
from rehearsal.session import Rehearsal
from tests import plans
from tests.checkout import copy_of_program
from tests.stacks.configuration import TPU_MAXTEXT, load, problems

STACKS = plans.stacks_with("recipe")
# It fine-tunes on a cluster, so a ConfigMap shows what its pods get.
STACK = plans.one_with("recipe", "wandbKey", "podsRange")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the program that a test may edit."""
    return copy_of_program(tmp_path)


def recipe_of(stack: str, checkout: Path = ROOT) -> Path:
    """The file of the recipe that a stack trains. The run has its name."""
    (run,) = plans.runs(plans.shipped(stack, imageUri=plans.IMAGE))
    (file,) = (checkout / "workloads").rglob(f"recipes/{run.rpartition('-')[0]}.yaml")
    return file


def another_value(stack: str) -> dict[str, Any]:
    """A value of the recipe that a stack trains, as the setting `recipeSet` has it."""
    has_sections = "training" in yaml.safe_load(recipe_of(stack).read_text())
    return {"training": {"seed": 7}} if has_sections else {"steps": 7}


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray"]))
def test_a_new_recipe_an_edited_one_of_another_stack_and_a_comment_change_no_plan(
    stack: str, checkout: Path
) -> None:
    with Rehearsal(stack, {"imageUri": plans.IMAGE}, checkout=checkout) as rehearsal:
        rehearsal.up()
        (run,) = plans.runs(plans.standing_plan(rehearsal))
        for recipe in sorted(recipe_of(stack, checkout).parent.glob("*.yaml")):
            text = recipe.read_text()
            if run.startswith(f"{recipe.stem}-"):
                recipe.write_text(f"# A comment.\n{text}")
            else:
                recipe.write_text(text.replace("training:", "training:\n  seed: 7"))
            (recipe.parent / "mine.yaml").write_text(text)
        assert rehearsal.preview().changed == 0


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["cloudrun-vllm"]))
def test_an_edited_docstring_of_the_trainer_goes_on_with_the_run(stack: str, checkout: Path) -> None:
    with Rehearsal(stack, {"imageUri": plans.IMAGE}, checkout=checkout) as rehearsal:
        rehearsal.up()
        before = plans.runs(plans.standing_plan(rehearsal))
        module = checkout / "workloads" / "shared" / "writer.py"
        module.write_text(module.read_text() + '"""A text."""  # and a comment\n')
        plan = rehearsal.preview()
        assert plan.changed
        assert plans.runs(plan) == before


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["l4-kueue", "tpu-maxtext"]))
def test_a_run_with_a_name_goes_on_with_other_code_libraries_and_values(stack: str) -> None:
    images = [f"{plans.IMAGE[:-1]}{digit}" for digit in "12"]
    plan = plans.shipped(stack, run="my-run", imageUri=images[0])
    other = plans.shipped(stack, run="my-run", imageUri=images[1])
    changed = plans.shipped(
        stack, run="my-run", imageUri=images[0], recipeSet=json.dumps(another_value(stack))
    )
    assert plans.runs(plan) == plans.runs(other) == plans.runs(changed) == {"my-run"}


@pytest.mark.parametrize("stack", plans.mostly_slow(STACKS, quick=["a4-ray", "cloudrun-vllm"]))
def test_other_values_of_the_recipe_are_another_run(stack: str) -> None:
    shipped = plans.shipped(stack, imageUri=plans.IMAGE)
    plan = plans.shipped(stack, imageUri=plans.IMAGE, recipeSet=json.dumps(another_value(stack)))
    assert plans.runs(plan).isdisjoint(plans.runs(shipped))


def test_a_preview_says_which_run_ends_and_which_begins() -> None:
    (old_run,) = plans.runs(plans.standing_plan(plans.standing(STACK)))
    plan = plans.planned_next(STACK, recipeSet='{"training": {"learning_rate": 1e-4}}')
    (new_run,) = plans.runs(plan)
    text = (
        f"run {old_run} is no longer trained and keeps its checkpoints; run {new_run} goes on from its "
        "newest checkpoint, or starts from step 0 if it has none"
    )
    assert text in messages(json.loads(plan.report), "info")
    unchanged = plans.planned_next(STACK)
    assert not any("no longer trained" in line for line in messages(json.loads(unchanged.report), "info"))


def test_a_backend_that_does_not_know_the_last_run_ends_no_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.get_organization", lambda: "a/name/that/no/backend/takes")
    assert plans.previewed(STACK, {"imageUri": plans.IMAGE}).changed


def test_the_pods_train_with_the_values_of_the_stack() -> None:
    """A bucket's objects are secret in a plan, so a ConfigMap shows it."""
    plan = plans.shipped(STACK, imageUri=plans.IMAGE, recipeSet='{"training": {"learning_rate": 1e-4}}')
    texts = plans.named(plan, f"{STACK}-code").inputs["data"]
    (recipe,) = (yaml.safe_load(text) for name, text in texts.items() if name.endswith(".yaml"))
    assert recipe["training"]["learning_rate"] == 1e-4
    in_file = yaml.safe_load(recipe_of(STACK).read_text())["training"]["epochs"]
    assert recipe["training"]["epochs"] == in_file


def test_a_recipe_may_be_a_file_anywhere(tmp_path: Path) -> None:
    file = tmp_path / "My_rows.v2.yaml"
    file.write_text(recipe_of(STACK).read_text())
    plan = plans.previewed(STACK, {"recipe": str(file)})
    (run,) = plans.runs(plan)
    assert run.startswith("My_rows.v2-")
    assert plans.run_once(plan).inputs["metadata"]["name"].startswith("my-rows-v2-")


def test_a_path_begins_at_the_folder_of_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    file = "./workloads/finetune/recipes/gemma-3-4b-vision.yaml"
    assert load({"llm-stacks:recipe": file}).training.recipe_name == "gemma-3-4b-vision"


@pytest.mark.parametrize(
    ("configuration", "problem"),
    [
        (
            {"llm-stacks:recipeSet": '{"training.learning_rat": "1e-4"}'},
            "unknown key training.learning_rat (did you mean learning_rate?)",
        ),
        ({"llm-stacks:recipeSet": '{"training": {"epochs": 0}}'}, "training.epochs must be greater than 0"),
        ({"llm-stacks:recipeSet": "epochs"}, "'epochs' is not a map of a recipe's keys and values"),
        ({**TPU_MAXTEXT, "llm-stacks:recipeSet": '{"steps": 0}'}, "steps must be a whole number"),
        ({"llm-stacks:recipe": "./nowhere.yaml"}, "nowhere.yaml does not exist"),
        ({"llm-stacks:run": "a run"}, "'a run' is not at most 63 letters, digits"),
    ],
)
def test_a_mistake_is_told_before_anything_is_made(
    configuration: dict[str, str | None], problem: str
) -> None:
    (text,) = problems(configuration)
    assert problem in text


def test_a_file_whose_name_no_command_can_take_is_rejected(tmp_path: Path) -> None:
    file = tmp_path / "my rows; more.yaml"
    file.write_text((ROOT / "workloads/finetune/recipes/gemma-3-4b-vision.yaml").read_text())
    (text,) = problems({"llm-stacks:recipe": str(file)})
    assert "rename the file, with at most 54 letters" in text


# Rows of one's own

OWN_ROWS = ROOT / "examples" / "own-data"


@pytest.mark.parametrize("stack", plans.mostly_slow(plans.stacks_with("wandbKey"), quick=["a4-ray"]))
def test_rows_on_the_disk_are_in_the_bucket_before_the_training_begins(stack: str) -> None:
    plan = plans.shipped(stack, imageUri=plans.IMAGE, recipe=str(OWN_ROWS / "my-rows.yaml"))
    (rows,) = (item for item in plans.of_type(plan, ":BucketObject") if item.name.endswith("my-rows.jsonl"))
    assert rows.inputs["source"]["path"] == str(OWN_ROWS / "my-rows.jsonl")
    digest = rows.inputs["source"]["hash"][:16]
    assert rows.inputs["name"] == f"data/sha256-{digest}/my-rows.jsonl"
    assert rows in plans.awaited(plan, plans.run_once(plan))


def test_the_pods_read_the_rows_from_the_storage_of_the_run() -> None:
    plan = plans.shipped(STACK, imageUri=plans.IMAGE, recipe=str(OWN_ROWS / "my-rows.yaml"))
    texts = plans.named(plan, f"{STACK}-code").inputs["data"]
    (recipe,) = (yaml.safe_load(text) for name, text in texts.items() if name.endswith(".yaml"))
    (file,) = recipe["data"]["files"]
    assert file.startswith("storage://data/sha256-") and file.endswith("/my-rows.jsonl")


def test_changed_rows_are_another_run_and_equal_rows_elsewhere_the_same(tmp_path: Path) -> None:
    names = [run_of_rows(tmp_path / folder, more) for folder, more in (("a", ""), ("b", ""), ("c", "\n"))]
    assert names[0] == names[1] != names[2]


def run_of_rows(folder: Path, more: str) -> str:
    """Name of the run of the example's rows in `folder`, with some text after them."""
    folder.mkdir()
    for file in OWN_ROWS.iterdir():
        (folder / file.name).write_text(file.read_text() + (more if file.suffix == ".jsonl" else ""))
    plan = plans.previewed(STACK, {"recipe": str(folder / "my-rows.yaml")})
    (run,) = plans.runs(plan)
    return run


def test_a_file_that_is_not_there_is_told_before_anything_is_made(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text((OWN_ROWS / "my-rows.yaml").read_text())
    (text,) = problems({"llm-stacks:recipe": str(tmp_path / "mine.yaml")})
    assert text == (
        f"recipe: data.files: there is no file {tmp_path / 'my-rows.jsonl'}; name a file beside the recipe, "
        "or gs://BUCKET/FILE"
    )


def test_an_adapter_of_this_machine_begins_no_run_of_a_stack(tmp_path: Path) -> None:
    tree = yaml.safe_load((ROOT / "workloads/finetune/recipes/gemma-3-4b-vision.yaml").read_text())
    tree["model"]["adapter"] = str(tmp_path)
    del tree["lora"]
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(tree))
    (text,) = problems({"llm-stacks:recipe": str(tmp_path / "mine.yaml")})
    assert f"model.adapter: {tmp_path} is a folder of this machine" in text


@pytest.mark.parametrize("above", ["", "../" * len(ROOT.parts)])
def test_a_recipe_outside_of_the_checkout_is_refused_and_not_quoted(tmp_path: Path, above: str) -> None:
    """A comment shows the message, and a stack file may name any file of the machine."""
    secret = tmp_path / "secret.yaml"
    for content in (
        "root:x:0:0",
        "of-somebody: 5",
        "model: {name: 5, key: of-somebody}",
        "- a\n of-somebody: {",
    ):
        secret.write_text(content)
        path = f"{above}{str(secret).lstrip('/')}" if above else str(secret)
        (problem,) = problems({"llm-stacks:recipe": path})
        assert "is no recipe, or something in it or in recipeSet is wrong; copy it" in problem
        assert "root:x" not in problem and "of-somebody" not in problem
