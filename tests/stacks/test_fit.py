"""Before nodes are asked for: whether a recipe's step fits into the memory of the stack's GPUs."""

import json
from pathlib import Path
from typing import Any

import pulumi
import pytest

from cloud.machines import L4
from stacks.training import fit
from tests.stacks.configuration import A4_RAY, CLOUDRUN, L4_KUEUE, load, problems
from workloads.finetune.settings.recipe import FIT, RECIPES, load_recipe

RECIPE = "gemma-3-1b-emoji"


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it with the GB that the recipe of cloudrun-vllm is said to take, by how many processes."""

    def write(digest: str = load_recipe(RECIPE).memory_digest, **gb: float) -> None:
        points = [
            {"processes": int(name[1:]), "max_length": 1024, "bytes": {"weights": size * 10**9}}
            for name, size in gb.items()
        ]
        (tmp_path / "fit.json").write_text(json.dumps({RECIPE: {"digest": digest, "points": points}}))

    monkeypatch.setattr(fit, "FIT", tmp_path / "fit.json")
    monkeypatch.setattr(fit, "OWN_FIT", tmp_path / "own-fit.json")
    return write


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the program warns of, in a preview and in preflight."""
    lines: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lines.append)
    return lines


def _recipe_and_settings(name: str) -> tuple[str, list[str]]:
    """The figures of a recipe with other values have the recipe's name and the values."""
    recipe, *settings = name.split()
    return recipe, settings


def on_l4(gpus: int = 1, recipe: str = RECIPE, **values: str) -> fit.Fit:
    """A recipe on L4, with other values."""
    changed = load_recipe(recipe, [f"{key}={value}" for key, value in values.items()])
    return fit.Fit(recipe=changed, name=recipe, values=values, gpu=L4, gpus=gpus)


def test_the_figures_are_of_the_recipes_as_they_are() -> None:
    figures = json.loads(FIT.read_text())
    stale = [
        path.stem
        for path in sorted(RECIPES.glob("*.yaml"))
        if figures.get(path.stem, {}).get("digest") != load_recipe(path.stem).memory_digest
    ]
    assert not stale, f"{', '.join(stale)} changed since its memory was computed: run `make gpu-fit`"
    for name, figure in figures.items():
        recipe = load_recipe(*_recipe_and_settings(name))
        assert figure["digest"] == recipe.memory_digest
        assert figure["points"][0]["max_length"] == recipe.training.max_length


@pytest.mark.parametrize("changes", [A4_RAY, CLOUDRUN, L4_KUEUE], ids=["a4-ray", "cloudrun-vllm", "l4-kueue"])
def test_a_recipe_fits_its_own_stack(changes: dict, warnings: list[str]) -> None:
    load(changes).fit.warn()
    assert warnings == []


@pytest.mark.parametrize("changes", [CLOUDRUN, L4_KUEUE], ids=["cloudrun-vllm", "l4-kueue"])
def test_a_recipe_of_larger_gpus_is_refused_before_anything_is_planned(
    changes: dict[str, str | None],
) -> None:
    (message,) = problems({**changes, "llm-stacks:recipe": "gemma-3-12b-text-to-sql"})
    assert message.startswith("recipe: gemma-3-12b-text-to-sql takes ")
    assert "GB of the 24 GB of each nvidia-l4 (" in message
    assert message.endswith(
        "; computed, not measured); take another recipe, or lower "
        "batch_size or max_length in a copy of this one"
    )


@pytest.mark.parametrize(
    ("gb", "expected"),
    [
        (21.5, []),
        (
            21.7,
            [
                "gemma-3-1b-emoji takes 21.7 GB of the 24 GB of each nvidia-l4 (90%; computed, not "
                "measured): it may run out of memory"
            ],
        ),
    ],
)
def test_a_recipe_that_leaves_little_is_warned_of(
    computed: Any, warnings: list[str], gb: float, expected: list[str]
) -> None:
    computed(p1=gb)
    on_l4().warn()
    assert warnings == expected


def test_what_takes_more_than_there_is_is_refused(computed: Any) -> None:
    computed(p1=24.1)
    with pytest.raises(ValueError, match=r"24\.1 GB of the 24 GB"):
        on_l4().check()


def test_fewer_processes_than_the_stack_has_count_not_more(computed: Any) -> None:
    computed(p1=30, p2=20, p8=5)
    on_l4(gpus=2).check()
    computed(p1=30, p8=5)
    with pytest.raises(ValueError, match="takes 30"):
        on_l4(gpus=2).check()


@pytest.mark.parametrize("known", [False, True], ids=["of one's own", "changed since"])
def test_a_recipe_without_figures_is_said_to_be_unknown(
    computed: Any, warnings: list[str], known: bool
) -> None:
    computed(digest="another", p1=100) if known else computed(p2=100)
    on_l4().warn()
    assert warnings == [
        "it is not known whether gemma-3-1b-emoji fits into the memory of each nvidia-l4; after `make setup` "
        "this command computes it in minutes: .venv-training/bin/python -m benchmarks.training.own_fit "
        "--recipe=gemma-3-1b-emoji --processes=1"
    ]


def test_the_command_computes_what_the_stack_trains(computed: Any) -> None:
    computed(digest="another", p1=1)
    changed = on_l4(2, "gemma-3-4b-sql", **{"training.batch_size": "4"})
    assert changed.command == [
        ".venv-training/bin/python",
        "-m",
        "benchmarks.training.own_fit",
        "--recipe=gemma-3-4b-sql",
        "--set=training.batch_size=4",
        "--processes=2",
    ]


def test_what_a_recipe_leaves_open_is_computed_for_the_memory_of_the_stacks_gpu(computed: Any) -> None:
    """A run chooses it by that. So figures for another GPU are of another step."""
    left_open = on_l4(1, RECIPE, **{"training.gradient_checkpointing": "null"})
    assert left_open.command[-2:] == ["--processes=1", "--memory-gb=24"]
    computed(digest=left_open.recipe.fit_digest(80), p1=1)
    assert left_open.command
    computed(digest=left_open.recipe.fit_digest(24), p1=1)
    assert left_open.command == []


def test_figures_of_the_users_own_recipe_count_like_those_of_the_shipped_ones(
    computed: Any, warnings: list[str], tmp_path: Path
) -> None:
    computed(digest="another", p1=1)
    (tmp_path / "fit.json").rename(tmp_path / "shipped.json")
    computed(p1=23)
    (tmp_path / "fit.json").rename(tmp_path / "own-fit.json")
    (tmp_path / "shipped.json").rename(tmp_path / "fit.json")
    on_l4().warn()
    assert on_l4().command == []
    assert warnings[0].startswith("gemma-3-1b-emoji takes 23.0 GB of the 24 GB")


def test_other_rows_take_no_more_memory_if_their_length_is_limited() -> None:
    unpacked = ["training.packing=false"]
    rows = ["data.name=me/rows", "data.prompt=Say it: {text}"]
    limited, other = (load_recipe(RECIPE, [*unpacked, *more]).memory_digest for more in ([], rows))
    assert limited == other
    unlimited = [*unpacked, "training.max_length=null"]
    one, another = (load_recipe(RECIPE, [*unlimited, *more]).memory_digest for more in ([], rows))
    assert one != another


@pytest.mark.parametrize(
    "change", ["training.learning_rate=1e-4", "training.epochs=5", "evaluation.rows=0", "lora.alpha=64"]
)
def test_a_setting_that_takes_no_memory_leaves_the_figures_valid(change: str) -> None:
    assert load_recipe(RECIPE, [change]).memory_digest == load_recipe(RECIPE).memory_digest


@pytest.mark.parametrize(
    "change",
    ["model.name=google/gemma-3-4b-it", "model.quantization=nf4", "lora.rank=64", "training.batch_size=8"],
)
def test_a_setting_that_takes_memory_makes_them_another_recipes(change: str) -> None:
    assert load_recipe(RECIPE, [change]).memory_digest != load_recipe(RECIPE).memory_digest


def test_a_copy_under_another_name_has_the_figures_of_the_original(tmp_path: Path) -> None:
    copy = tmp_path / "mine.yaml"
    copy.write_text((RECIPES / f"{RECIPE}.yaml").read_text())
    same = fit.Fit(recipe=load_recipe(str(copy)), name="mine", values={}, gpu=L4, gpus=1)
    assert same.command == []
