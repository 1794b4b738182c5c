"""Packed attention and a shared prefix change no result."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from finetune.rows.prefix import split_off_prefix
from finetune.rows.tokens import NOT_TRAINED
from finetune.settings.recipe import load_recipe
from rehearsal.running_pods.tiny import make_recipe, make_trainer
from shared.errors import InputError

# One row, rows of many lengths, rows longer than the window of 8, rows of one token.
PACKS = [[23], [3, 150, 64, 65, 1, 7, 30], [9, 8, 200], [1, 1, 1]]


@pytest.mark.parametrize("prefix", [0, 1, 11], ids="prefix-{}".format)
@pytest.mark.parametrize("window", [None, 8], ids=["global", "sliding"])
@pytest.mark.parametrize("lengths", PACKS, ids=str)
def test_a_packed_row_attends_as_it_would_alone(lengths: list[int], window: int | None, prefix: int) -> None:
    """With its own copy of the prefix. Gradients are equal too, to the precision of fp32."""
    import torch

    from finetune.model.attention import attend_within_rows

    attention: Any = torch.nn.Module()
    attention.num_key_value_groups = 2
    torch.manual_seed(1)
    tokens = prefix + sum(lengths)
    query = torch.randn(1, 4, tokens, 16, requires_grad=True)
    key, value = (torch.randn(1, 2, tokens, 16, requires_grad=True) for _ in range(2))
    bounds = torch.tensor([prefix, *lengths]).cumsum(0).int()
    weight = torch.randn(1, tokens, 4, 16)

    packed, _ = attend_within_rows(
        attention, query, key, value, None, cu_seq_lens_q=bounds, sliding_window=window, scaling=0.3
    )
    rows = [torch.cat([torch.arange(prefix), torch.arange(*row)]) for row in itertools.pairwise(bounds)]
    alone = [
        by_definition(*(states[:, :, row] for states in (query, key, value)), window)[:, prefix:]
        for row in rows
    ]
    first = by_definition(*(states[:, :, :prefix] for states in (query, key, value)), window)
    alone = torch.cat([first, *alone], dim=1)
    torch.testing.assert_close(packed, alone)
    inputs = (query, key, value)
    for ours, theirs in zip(
        torch.autograd.grad((packed * weight).sum(), inputs),
        torch.autograd.grad((alone * weight).sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def by_definition(query: Any, key: Any, value: Any, window: int | None) -> Any:
    """Softmax over the scores of earlier tokens in the window, scaled by 0.3."""
    import torch

    scores = query @ key.repeat_interleave(2, 1).transpose(2, 3) * 0.3
    distance = torch.arange(query.shape[2])[:, None] - torch.arange(query.shape[2])[None]
    hidden = (distance < 0) | (distance >= (window or query.shape[2]))
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return (weights @ value.repeat_interleave(2, 1)).transpose(1, 2)


def test_rows_that_are_not_packed_are_refused_rather_than_mixed(tiny: Path) -> None:
    import torch

    from finetune.model.loading import load_model
    from finetune.settings.sections import Model

    base = Model(name=str(tiny / "text-model"), quantization="none", precision="fp32")
    model = load_model(base, torch.device("cpu"), packed=True)
    with pytest.raises(InputError, match=r"no bounds of the rows in a pack .* training\.packing to false"):
        model(input_ids=torch.tensor([[2, 5, 6]]))


@pytest.mark.parametrize("shipped", ["gemma-3-1b-emoji", "gemma-3-12b-text-to-sql"])
def test_the_prefix_of_all_rows_goes_through_the_model_once_a_batch(
    shipped: str, tiny: Path, tmp_path: Path
) -> None:
    recipe = load_recipe(str(make_recipe(tmp_path / "recipe.yaml", tiny, shipped)), [])
    trainer = make_trainer(recipe, tmp_path)
    instruction = recipe.data.prompt.split("{")[0].rstrip(" \n")
    for batch in (*trainer.get_train_dataloader(), *trainer.get_eval_dataloader()):
        text = trainer.processing_class.decode(batch["input_ids"][0])
        assert text.count("<bos>") == text.count(instruction) == 1
        assert len(batch["cu_seq_lens_q"]) > 2


@pytest.mark.parametrize("shipped", ["gemma-3-1b-emoji", "gemma-3-12b-text-to-sql"])
def test_the_adapter_learns_from_a_shared_prefix_what_it_learns_from_one_in_each_row(
    shipped: str, tiny: Path, tmp_path: Path
) -> None:
    """The gradients equal those of rows that are not packed: padded, each with its full prompt."""
    import torch

    gradients = []
    for packing in (True, False):
        overrides = ["data.rows=6", "data.test_rows=1", "lora.dropout=0", f"training.packing={packing}"]
        recipe = load_recipe(str(make_recipe(tmp_path / "recipe.yaml", tiny, shipped)), overrides)
        trainer = make_trainer(recipe, tmp_path)
        weights = {name: weight for name, weight in trainer.model.named_parameters() if weight.requires_grad}
        generator = torch.Generator().manual_seed(4)
        for weight in weights.values():
            weight.data = torch.randn(weight.shape, generator=generator) / 10
        batch = trainer.data_collator(list(trainer.train_dataset))
        loss = trainer.compute_loss(trainer.model, batch)
        gradients.append(torch.autograd.grad(loss, list(weights.values())))
    for shared, repeated in zip(*gradients, strict=True):
        assert repeated.abs().max() > 1e-4
        torch.testing.assert_close(shared, repeated, rtol=1e-3, atol=1e-5)


def tokenised(*rows: tuple[list[int], list[int]]) -> Any:
    """Rows of `prompt` and `reply` tokens."""
    from datasets import Dataset

    return Dataset.from_dict(
        {
            "input_ids": [prompt + reply for prompt, reply in rows],
            "labels": [[NOT_TRAINED] * len(prompt) + reply for prompt, reply in rows],
        }
    )


def test_every_row_keeps_a_token_of_its_prompt_before_its_reply() -> None:
    """In a pack a row's first token follows another row, so it must not be trained."""
    prefix, rows, _ = split_off_prefix(tokenised(([2, 5, 6], [7, 8]), ([2, 5, 6], [7, 9])), None)
    assert prefix == [2, 5]
    assert rows["input_ids"] == [[6, 7, 8], [6, 7, 9]]
    assert rows["labels"] == [[NOT_TRAINED, 7, 8], [NOT_TRAINED, 7, 9]]


def test_the_prefix_is_that_of_the_rows_held_out_too() -> None:
    prefix, rows, test_rows = split_off_prefix(tokenised(([2, 5, 6], [7])), tokenised(([2, 4, 6], [7])))
    assert prefix == [2] and test_rows is not None
    assert (rows["input_ids"][0], test_rows["input_ids"][0]) == ([5, 6, 7], [4, 6, 7])
