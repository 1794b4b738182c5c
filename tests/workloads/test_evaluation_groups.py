"""Held-out rows that no pack holds are evaluated in groups, with the figures of each row alone."""

from pathlib import Path

import pytest

from finetune.run import trainer as trainer_module
from finetune.run.groups import by_length
from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import make_recipe, make_trainer


@pytest.mark.parametrize(
    ("lengths", "tokens", "groups"),
    [
        ([5, 1, 4, 2], 8, [[1, 3], [2], [0]]),
        ([3, 3, 3, 3, 3], 6, [[0, 1], [2, 3], [4]]),
        ([9, 2], 4, [[1], [0]]),
        ([], 4, []),
    ],
)
def test_rows_of_about_one_length_are_together_and_padding_counts(
    lengths: list[int], tokens: int, groups: list[list[int]]
) -> None:
    assert by_length(lengths, tokens) == groups


@pytest.mark.parametrize(
    ("shipped", "settings"),
    [
        ("gemma-3-1b-emoji", ["data.test_rows=9", "training.packing=false", "training.max_length=100"]),
        ("gemma-3-4b-vision", ["data.rows=8", "data.test_rows=5"]),
    ],
    ids=["text", "pictures"],
)
def test_groups_give_the_figures_of_rows_alone_in_fewer_steps(
    shipped: str, settings: list[str], tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_recipe(tmp_path / "recipe.yaml", tiny, shipped)
    settings += ["training.batch_size=3", "training.loader_processes=0"]
    trainer = make_trainer(load_recipe(str(path), settings), tmp_path)
    together, batches = trainer.evaluate(), len(trainer.get_eval_dataloader())
    for name in ("by_length", "in_order"):
        monkeypatch.setattr(trainer_module, name, lambda rows, _: [[number] for number in range(count(rows))])
    alone = trainer.evaluate()
    assert batches < len(trainer.get_eval_dataloader()) == len(trainer.eval_dataset)
    for figure in ("eval_loss", "eval_mean_token_accuracy"):
        assert together[figure] == pytest.approx(alone[figure], rel=1e-5)


def count(rows: int | list[int]) -> int:
    """The number of rows, of which their lengths are given or not."""
    return rows if isinstance(rows, int) else len(rows)
