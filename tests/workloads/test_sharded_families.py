"""FSDP2 on two CPU processes for models of other families: the losses and the answers of one process."""

from pathlib import Path

import pytest
from launches import edited, local, torchrun
from outcomes import losses
from safetensors.torch import load_file
from tiny_families import make_family

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe

# The 31B has two head sizes, layers whose keys are their values, and buffers among its weights. Layers of the
# other Gemma 4 share keys and values. Llama's embedding and output layer have weights of their own.
FAMILIES = ["Gemma 4 31B", "Gemma 4", "Llama"]
ONE_PROCESS = "--set=training.batch_size=2"
ALL_WEIGHTS = "--set=lora=null"


@pytest.fixture(scope="module")
def recipes(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each family the shipped recipe that is sharded, with 3 rows to answer."""
    folder = tmp_path_factory.mktemp("recipes")
    recipes = {}
    for family in FAMILIES:
        model = folder / family.replace(" ", "-")
        make_family(family, model)
        path = make_recipe(
            folder / f"{model.name}.yaml", tiny, "gemma-4-31b-text-to-sql", batch_size=1, sharding="fsdp2"
        )
        # The shipped names of layers belong to models with a part for pictures.
        layers = {"target_modules": r".*mlp\.(gate_proj|up_proj|down_proj)"} if family == "Llama" else {}
        recipes[family] = edited(
            path,
            path.name,
            model={"name": str(model)},
            lora={"dropout": 0, **layers},
            evaluation={"rows": 3, "max_new_tokens": 5},
        )
    return recipes


@pytest.fixture(scope="module")
def sharded(recipes: dict[str, Path], warm: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with a finished run of two processes for each family, and one of all weights."""
    store = tmp_path_factory.mktemp("store")
    plan = [{"arguments": local(recipe, store, recipe.stem)} for recipe in recipes.values()]
    plan += [{"arguments": [*local(recipes["Gemma 4 31B"], store, "all-weights"), ALL_WEIGHTS]}]
    code, output = torchrun(warm, recipes[FAMILIES[0]], store, *plan)
    assert code == 0, output
    return store


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_that_is_sharded_has_the_losses_and_the_answers_of_one_process(
    family: str, sharded: Path, recipes: dict[str, Path], tmp_path: Path
) -> None:
    recipe = recipes[family]
    assert main([*local(recipe, tmp_path, "one"), ONE_PROCESS]) == 0
    run = sharded / recipe.stem
    expected = losses(tmp_path / "one")
    assert len(expected) > 3
    assert losses(run) == pytest.approx(expected, abs=1e-4)
    assert (run / "answers.jsonl").read_text() == (tmp_path / "one" / "answers.jsonl").read_text()


def test_all_weights_that_are_sharded_are_published_with_the_buffers_among_them(
    sharded: Path, recipes: dict[str, Path], tmp_path: Path
) -> None:
    recipe = recipes["Gemma 4 31B"]
    assert main([*local(recipe, tmp_path, "one"), ONE_PROCESS, ALL_WEIGHTS]) == 0
    assert losses(sharded / "all-weights") == pytest.approx(losses(tmp_path / "one"), abs=1e-4)
    published, expected = (
        load_file(run / "model" / "model.safetensors") for run in (sharded / "all-weights", tmp_path / "one")
    )
    assert published.keys() == expected.keys()
    assert any(name.endswith("layer_scalar") for name in published)
    for name, weight in published.items():
        assert weight.float().numpy() == pytest.approx(expected[name].float().numpy(), abs=5e-3), name
