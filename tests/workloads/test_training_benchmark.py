"""Both sides of the training benchmark have the same rows and reply tokens, one with the shipped recipes."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from finetune.settings.recipe import load_recipe

if TYPE_CHECKING:
    from benchmarks.training.measure import Case

REPLY = re.compile(r"<start_of_turn>model\n(.*?)<end_of_turn>", re.DOTALL)
# The small model and data, and settings that a CPU or a run of seconds cannot have.
REPLACED = {
    "model": {"name", "quantization", "precision"},
    "data": {"name", "rows", "test_rows"},
    "training": {"epochs", "loader_processes", "sharding"},
}


@pytest.fixture(autouse=True)
def kernels_of_trl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark chooses trl's kernels for its process. Other tests shall have trl's own choice."""
    import trl.trainer.utils

    monkeypatch.setattr(trl.trainer.utils, "_use_triton", trl.trainer.utils._use_triton)


@pytest.fixture(params=["emoji", "sql", "product"])
def case(request: pytest.FixtureRequest) -> "Case":
    from benchmarks.training.measure import SHIPPED

    (case,) = [case for case in SHIPPED if case.name == request.param]
    return case


@pytest.fixture(scope="module")
def stand_ins(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from benchmarks.training.measure import MOST_ROWS
    from benchmarks.training.stand_ins import make_data

    path = tmp_path_factory.mktemp("stand-ins")
    make_data(path, MOST_ROWS, MOST_ROWS)
    (path / "tiny-text").symlink_to(tiny / "text-model")
    (path / "tiny-vision").symlink_to(tiny / "model")
    return path


def test_the_recipe_is_the_shipped_one_but_for_model_and_data(case: "Case", stand_ins: Path) -> None:
    from benchmarks.training.measure import recipe_of

    measured, original = recipe_of(case, "tiny", stand_ins).to_dict(), load_recipe(case.recipe).to_dict()
    assert measured["task"] == original.pop("task")
    for section, values in original.items():
        changed = {key for key, value in values.items() if measured[section][key] != value}
        assert changed <= REPLACED.get(section, set())


SAME = [
    "learning_rate",
    "lr_scheduler_type",
    "optim",
    "max_grad_norm",
    "weight_decay",
    "warmup_steps",
    "seed",
]


def test_who_knows_trl_trains_the_same_adapter_at_the_same_rate_on_the_same_rows_in_as_many_steps(
    case: "Case", stand_ins: Path, tmp_path: Path
) -> None:
    from benchmarks.training.measure import count_labels, library, recipe_of, shipped

    recipe = recipe_of(case, "tiny", stand_ins)
    ours: Any = shipped(recipe, tmp_path)
    theirs: Any = library(recipe, tmp_path, ours)
    assert adapter(theirs) == adapter(ours)
    assert [getattr(theirs.args, name) for name in SAME] == [getattr(ours.args, name) for name in SAME]
    assert theirs.args.gradient_accumulation_steps == ours.args.gradient_accumulation_steps
    tokenizer = getattr(ours.processing_class, "tokenizer", ours.processing_class)
    batches, padded = [*ours.get_train_dataloader()], [*theirs.get_train_dataloader()]
    # The same rows in as many steps are the same tokens per step. A shared prefix counts in each row.
    assert len(padded) == len(batches)
    trained = replies(padded, tokenizer)
    assert len(trained) == case.rows["tiny"]
    assert trained == replies(batches, tokenizer)
    # trl alone also trains the newline behind the end of a turn, which the model never writes.
    assert count_labels(padded) == count_labels(batches) + len(trained)
    assert len(replies(padded[:1], tokenizer)) > 1


def test_a_recipe_that_says_nothing_is_compared_with_as_many_rows_a_step(
    stand_ins: Path, tmp_path: Path
) -> None:
    from benchmarks.training.measure import CASES, library, recipe_of, shipped
    from finetune.settings.lora import Lora
    from finetune.settings.recipe import OPEN

    (silent,) = [case for case in CASES if case.silent and case.name == "sql"]
    recipe = recipe_of(silent, "tiny", stand_ins)
    training = recipe.training.model_dump()
    changed = {
        name for name, field in type(recipe.training).model_fields.items() if training[name] != field.default
    }
    assert changed <= {*OPEN, "loader_processes"} and recipe.lora == Lora()
    assert (recipe.open, recipe.training.packing) == ([], True)
    ours: Any = shipped(recipe, tmp_path)
    theirs: Any = library(recipe, tmp_path, ours)
    assert adapter(theirs) == adapter(ours)
    # A pack has the tokens of sixteen rows, and one beginning for all of them.
    assert theirs.args.per_device_train_batch_size > 16
    assert len([*theirs.get_train_dataloader()]) == len([*ours.get_train_dataloader()])
    assert not theirs.args.gradient_checkpointing and not recipe.training.recomputes


def test_the_loss_over_test_rows_is_the_one_that_the_trainer_evaluates(
    case: "Case", stand_ins: Path, tmp_path: Path
) -> None:
    from benchmarks.training.measure import recipe_of, reply_loss, shipped

    trainer = shipped(recipe_of(case, "tiny", stand_ins), tmp_path)
    measured = reply_loss(trainer, list(trainer.get_eval_dataloader()))
    assert measured == pytest.approx(trainer.evaluate()["eval_loss"], rel=1e-4)


def adapter(trainer: Any) -> list[tuple[str, Any, float, float]]:
    """Name, shape, factor and dropout of each trained weight."""
    config = trainer.model.peft_config["default"]
    return [
        (name, weight.shape, config.lora_alpha / config.r, config.lora_dropout)
        for name, weight in trainer.model.named_parameters()
        if weight.requires_grad
    ]


def test_the_recorded_figures_say_which_code_was_measured() -> None:
    from benchmarks.training.__main__ import HERE

    for results in HERE.parent.glob("*/results-*.md"):
        assert re.match(r"Commit [0-9a-f]{12}; ", results.read_text()), results


def test_only_tokens_of_replies_are_compared_with_the_vocabulary_as_on_a_gpu(
    case: "Case", stand_ins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl.trainer.utils

    from benchmarks.training.measure import recipe_of, shipped

    trainer: Any = shipped(recipe_of(case, "tiny", stand_ins), tmp_path)
    scored = []
    score = trl.trainer.utils._ChunkedLogProbFunction.apply

    def count(hidden: Any, *others: Any) -> Any:
        scored.append(len(hidden))
        return score(hidden, *others)

    monkeypatch.setattr(trl.trainer.utils._ChunkedLogProbFunction, "apply", count)
    batch = next(iter(trainer.get_train_dataloader()))
    trainer.compute_loss(trainer.model, batch)
    assert scored == [int((batch["labels"][:, 1:] != -100).sum())]


def replies(batches: Any, tokenizer: Any) -> list[str]:
    """The replies in the batches of an epoch, sorted."""
    texts = [tokenizer.decode(row) for batch in batches for row in batch["input_ids"].tolist()]
    return sorted(REPLY.findall("".join(texts)))
