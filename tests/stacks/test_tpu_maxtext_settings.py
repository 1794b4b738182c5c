"""What the settings of tpu-maxtext decide about its slice, its data and its token."""

import subprocess
import sys

import pytest

from components.cluster.capacity import CapacityType
from engine.project import ROOT
from tests.stacks.configuration import TPU_MAXTEXT, load, problems

CAPACITY = "llm-stacks:capacity.type"
RECIPES = sorted(file.stem for file in (ROOT / "workloads/maxtext/maxtext_driver/recipes").glob("*.yaml"))


def test_the_tutorial_s_slice_and_recipe_are_the_defaults() -> None:
    tpu = load(TPU_MAXTEXT)
    assert (tpu.slice.topology, tpu.slice.machine.name, tpu.slice.hosts) == ("4x4", "ct6e-standard-4t", 4)
    training = tpu.training
    assert (training.recipe, training.dataset, training.hf_token) == ("llama3-8b", None, None)
    assert tpu.capacity.capacity_types == (CapacityType.ON_DEMAND,)


@pytest.mark.parametrize(
    ("changes", "zone"),
    [
        ({}, "us-east5-b"),
        ({"gcp:region": "us-central1"}, "us-central1-b"),
        ({"llm-stacks:zone": "us-east5-a"}, "us-east5-a"),
        ({CAPACITY: "flexStart"}, "us-east5-a"),
        # The owner of a reservation knows its zone.
        (
            {
                CAPACITY: "reservation",
                "llm-stacks:capacity.reservation": "mine",
                "gcp:region": "us-west1",
                "llm-stacks:zone": "us-west1-c",
            },
            "us-west1-c",
        ),
    ],
)
def test_a_slice_is_where_there_is_v6e(changes: dict, zone: str) -> None:
    assert load({**TPU_MAXTEXT, **changes}).zone_of_slice == zone


@pytest.mark.parametrize(
    "files", ["hf://datasets/o/d/*.parquet", "hf://datasets/o/d@v1.0/en/0-*.parquet", "/data/mine/*.parquet"]
)
def test_parquet_files_take_the_place_of_the_recipes_data(files: str) -> None:
    settings = load({**TPU_MAXTEXT, "llm-stacks:dataset": files})
    assert settings.training.trained_recipe.maxtext["grain_train_files"] == files
    assert settings.training.trained_recipe.maxtext["dataset_type"] == "grain"


def test_conversations_take_the_place_of_those_of_a_recipe_and_its_evaluation_goes() -> None:
    """The tokenizer is the one of the weights."""
    chat = {**TPU_MAXTEXT, "llm-stacks:recipe": "llama31-8b-chat"}
    files = {"llm-stacks:dataset": "/data/mine/*.jsonl"}
    recipe = load({**chat, **files}).training.trained_recipe
    assert (recipe.maxtext["grain_train_files"], recipe.maxtext["grain_eval_files"]) == (
        "/data/mine/*.jsonl",
        "",
    )
    assert "tokenizer_path" not in recipe.maxtext
    assert "reads texts from Parquet" in problems({**TPU_MAXTEXT, **files})[0]


def test_the_program_reads_recipes_without_the_driver_on_its_path() -> None:
    """pytest has the driver on its path, and the program only the folder above it."""
    code = "from stacks.training.maxtext import load_recipe as load; print(load('llama3-8b').steps)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "100\n"


def test_a_token_is_a_secret_also_where_it_is_optional() -> None:
    token = {"llm-stacks:hfToken": "hf_secret_of_the_test"}
    assert "hf_secret" not in repr(load({**TPU_MAXTEXT, **token}))
    assert "stored in plain text" in problems({**TPU_MAXTEXT, **token}, secrets=())[0]


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        (
            "tpu7x",
            "tpuVersion: 'tpu7x' is not one of v6e, v5e, v5p (docs/machines.md says why there is no TPU7x)",
        ),
        (
            "v5p",
            "topology: there is no 4x4 slice of TPU v5p; choose one of 2x2x1, 2x2x2, 2x2x4, 2x4x4, 4x4x4, "
            "4x4x8, 4x8x8",
        ),
        (
            "v5e",
            "zone: us-east5 has no TPU v5e; it is in europe-west4-b, us-central1-a, us-south1-a, us-west1-c, "
            "us-west4-a",
        ),
    ],
)
def test_chips_that_the_settings_do_not_fit_are_refused_in_one_sentence(version: str, problem: str) -> None:
    assert problems({**TPU_MAXTEXT, "llm-stacks:tpuVersion": version}) == [problem]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"llm-stacks:topology": "2x4", "llm-stacks:slices": "2"},
            "GKE joins slices of several machines alone, and a 2x4 slice is one machine; set slices to 1, or "
            "topology to one of 4x4, 4x8, 8x8, 8x16, 16x16",
        ),
        (
            {"llm-stacks:topology": "16x16", "llm-stacks:slices": "2"},
            "2 slices of 64 machines are more than 100 machines, the most that a stack may have; set fewer "
            "slices or a smaller topology",
        ),
        (
            {"llm-stacks:slices": "3", "llm-stacks:recipeSet": '{"dcn_fsdp_parallelism": 2}'},
            "the recipe llama3-8b divides the training over 2 slices (dcn_...); set slices to 2, or choose "
            "another recipe",
        ),
        (
            {"llm-stacks:recipeSet": '{"dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 1}'},
            "the recipe llama3-8b divides the training over 2 slices (dcn_...); set slices to 2, or choose "
            "another recipe",
        ),
    ],
)
def test_slices_that_cannot_train_together_are_refused_in_one_sentence(
    changes: dict[str, str | None], problem: str
) -> None:
    assert problems({**TPU_MAXTEXT, **changes}) == [f"slices: {problem}"]


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_shipped_recipe_takes_several_slices(recipe: str) -> None:
    token = {"llm-stacks:hfToken": f"hf_{'a' * 34}"}
    assert load({**TPU_MAXTEXT, **token, "llm-stacks:slices": "2", "llm-stacks:recipe": recipe}).hosts == 8


def test_a_recipe_may_divide_its_weights_over_as_many_slices_as_there_are() -> None:
    divided = {"llm-stacks:recipeSet": '{"dcn_fsdp_parallelism": 2, "dcn_data_parallelism": 1}'}
    settings = load({**TPU_MAXTEXT, "llm-stacks:slices": "2", **divided})
    assert (settings.hosts, settings.slice.hosts) == (8, 4)
