"""The tokens of a row with a picture, and which of them are trained."""

from pathlib import Path
from typing import Any

import pytest

from conversations.thinking import settle
from finetune.model.loading import load_processor
from finetune.rows.data import load_conversations
from finetune.rows.tokens import picture_batch
from finetune.settings.recipe import Recipe, load_recipe
from rehearsal.running_pods.tiny import TOKENS_PER_IMAGE, make_recipe


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return load_recipe(str(make_recipe(tmp_path_factory.mktemp("rows") / "recipe.yaml", tiny)))


@pytest.fixture(scope="module")
def rows(recipe: Recipe) -> Any:
    return load_conversations(recipe.data, recipe.training.seed)[0]


@pytest.fixture(scope="module")
def trainer(recipe: Recipe, rows: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    # Imports the Hub's library, which reads the environment that conftest sets after this file is read.
    from finetune.run.training import build_trainer, sft_arguments

    return build_trainer(recipe, sft_arguments(recipe, tmp_path_factory.mktemp("work")), rows, None, [])


def decoded(trainer: Any, ids: Any) -> str:
    return trainer.processing_class.tokenizer.decode(ids)


def test_a_row_becomes_the_tutorial_s_conversation(recipe: Recipe, rows: Any) -> None:
    from datasets import load_dataset

    raw = load_dataset(recipe.data.name, split="train")[5]
    system, user = rows[5]["prompt"]
    assert system == {"role": "system", "content": "You are an expert product description writer for Amazon."}
    assert user["role"] == "user"
    assert (
        f"<PRODUCT>\n{raw['Product Name']}\n</PRODUCT>\n\n<CATEGORY>\n{raw['Category']}\n</CATEGORY>"
        in user["content"]
    )
    assert rows[5]["completion"] == [{"role": "assistant", "content": raw["description"]}]


def test_the_tokenised_row_holds_prompt_picture_and_description_once_and_ends_the_turn(
    trainer: Any, rows: Any
) -> None:
    for row in (0, 4):
        batch = trainer.data_collator([rows[row]])
        text = decoded(trainer, batch["input_ids"][0])
        assert text.count("<bos>") == 1
        assert text.startswith("<bos><start_of_turn>user\nYou are an expert product description writer")
        assert text.count("<image_soft_token>") == TOKENS_PER_IMAGE
        reply = rows[row]["completion"][0]["content"]
        assert text.endswith(f"<start_of_turn>model\n{reply}<end_of_turn>\n")


def test_only_the_reply_is_trained(trainer: Any, rows: Any) -> None:
    batch = trainer.data_collator([rows[0], rows[4]])
    for number, row in enumerate((0, 4)):
        labels = batch["labels"][number]
        reply = rows[row]["completion"][0]["content"]
        assert decoded(trainer, labels[labels != -100]) == f"{reply}<end_of_turn>"


def test_neither_picture_nor_padding_is_trained(trainer: Any, rows: Any) -> None:
    batch = trainer.data_collator([rows[0], rows[4]])
    token = trainer.processing_class.tokenizer.convert_tokens_to_ids
    trained = set(batch["labels"].unique().tolist())
    special = (
        "<pad>",
        "<bos>",
        "<start_of_image>",
        "<end_of_image>",
        "<image_soft_token>",
        "<start_of_turn>",
    )
    assert not trained & {token(name) for name in special}
    assert (batch["attention_mask"] == 0).any()


def test_pictures_of_every_mode_become_rgb(rows: Any) -> None:
    assert {rows[row]["images"][0].mode for row in range(4)} == {"RGB"}


def test_pictures_are_decoded_only_when_their_row_is_used(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from finetune.rows import data

    calls: list[object] = []
    monkeypatch.setattr(data, "decode", calls.append)
    rows[3]
    assert len(calls) == 1


def test_the_adapter_is_on_the_language_model_s_linear_layers_alone(trainer: Any) -> None:
    trained = {name for name, weight in trainer.model.named_parameters() if weight.requires_grad}
    modules = {name.split(".lora_")[0].rsplit(".", 1)[1] for name in trained}
    assert modules == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(".language_model.layers." in name and ".lora_" in name for name in trained)
    assert len(trained) == 2 * 7 * trainer.model.config.text_config.num_hidden_layers


def test_attention_runs_on_sdpa(trainer: Any) -> None:
    assert trainer.model.config.text_config._attn_implementation == "sdpa"


PARTS = (
    "{% for p in m.content %}{% if p.type == 'image' %}<start_of_image>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}"
)
TURN = "<|{{ m.role }}|>\n" + PARTS
# The prompt begins thoughts that replies lack, or a turn ends with the next one.
FORMS = {
    "R1": (
        "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>\n"
        "{{ m.content[0].text.split('</think>')[-1].lstrip() }}{{ eos_token }}{% else %}"
        + TURN
        + "{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n<think>\n{% endif %}",
        "<eos>",
    ),
    "GLM": (
        "{% for m in messages %}" + TURN + "{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>\n{% endif %}",
        "<|user|>",
    ),
}


@pytest.mark.parametrize(
    ("form", "thoughts"), [("R1", ""), ("R1", "<think>a lamp</think>"), ("GLM", "")], ids=["no", "yes", "GLM"]
)
def test_a_reply_to_a_picture_is_trained_behind_the_prompt_that_a_server_makes(
    form: str, thoughts: str, recipe: Recipe, rows: Any
) -> None:
    from trl.data_utils import prepare_multimodal_messages

    processor = load_processor(recipe.model.name, pictures=True)
    template, end = FORMS[form]
    processor.tokenizer.add_tokens(["<|user|>"])
    processor.chat_template = processor.tokenizer.chat_template = template
    settle(processor, bool(thoughts))
    row = rows[0]
    reply = row["completion"][0]["content"]
    row["completion"] = [{"role": "assistant", "content": thoughts + reply}]
    asked = processor.apply_chat_template(
        prepare_multimodal_messages(row["prompt"], images=row["images"]), add_generation_prompt=True
    )
    pictures = {"images": row["images"], "add_special_tokens": False}
    served = processor(text=asked, **pictures)["input_ids"][0]
    batch = picture_batch(processor)([row])
    tokens, labels = batch["input_ids"][0].tolist(), batch["labels"][0]
    assert tokens[: len(served)] == [*served]
    trained = processor.tokenizer.decode(labels[labels != -100])
    assert (
        trained.replace("\n", "").replace("<think>", "") == f"{'a lamp</think>' * bool(thoughts)}{reply}{end}"
    )
    assert (labels[: len(served)] == -100).all() and labels[len(served)] != -100
