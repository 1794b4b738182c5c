"""Before a run, a small copy of its model tells whether rows can share a pack, and whether it can write."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml

from finetune.__main__ import main
from finetune.model.small_copy import see
from finetune.model.small_model import NoSmallModel

ROOT = Path(__file__).parents[2]
TWICE = {"num_key_value_heads": 8}
PERIODS = ["conv", "conv", "full_attention"] * 5 + ["conv"]
UNKNOWN = "attends in a way that packs do not know"
OTHERWISE = "computes a row in a pack otherwise than alone"

# By the class of a configuration at its published widths: values other than its defaults, and why rows of it
# share no pack.
SEEN: dict[str, tuple[dict[str, Any], str | None]] = {
    "LlamaConfig": ({}, None),
    "Gemma3Config": ({}, None),
    "Gemma4Config": ({}, None),
    "Qwen3MoeConfig": ({}, None),
    "Qwen2_5_VLConfig": ({}, None),
    "MistralConfig": ({}, None),
    "GraniteConfig": ({}, None),
    "DeepseekV3Config": ({}, None),
    "Gemma2Config": ({}, f"Gemma2Attention {UNKNOWN} (softcap)"),
    "GptOssConfig": ({}, f"GptOssAttention {UNKNOWN} (s_aux)"),
    "NemotronConfig": (TWICE, "NemotronAttention is given no bounds of the rows in a pack (cu_seq_lens_q)"),
    "DogeConfig": ({}, f"DogeForCausalLM {OTHERWISE}"),
    "Lfm2Config": (
        {"layer_types": PERIODS, "num_hidden_layers": len(PERIODS)},
        f"Lfm2ForCausalLM {OTHERWISE}",
    ),
    "FalconH1Config": ({}, f"FalconH1ForCausalLM {OTHERWISE}"),
    "Llama4TextConfig": ({}, f"Llama4ForCausalLM {OTHERWISE}"),
    "BloomConfig": ({}, f"BloomForCausalLM {OTHERWISE}"),
    "Kosmos2_5Config": ({}, f"Kosmos2_5ForConditionalGeneration {OTHERWISE}"),
}


@pytest.mark.parametrize("kind", SEEN)
def test_two_rows_packed_and_alone_tell_whether_rows_can_share_a_pack(kind: str) -> None:
    values, reason = SEEN[kind]
    before = torch.get_rng_state()
    sight = see(getattr(transformers, kind)(**values))
    assert sight.not_packed == reason
    assert sight.is_causal
    # The run draws what it would have drawn without this look.
    assert torch.get_rng_state().equal(before)


@pytest.mark.parametrize("kind", ["BertConfig", "RobertaConfig", "ElectraConfig", "PaliGemmaConfig"])
def test_a_model_whose_tokens_see_those_behind_them_is_not_causal(kind: str) -> None:
    assert not see(getattr(transformers, kind)()).is_causal


@pytest.mark.parametrize("kind", ["BertConfig", "RobertaConfig"])
def test_an_encoder_that_was_made_a_decoder_is_causal(kind: str) -> None:
    assert see(getattr(transformers, kind)(is_decoder=True)).is_causal


def recipe_of(config: Any, tiny: Path, tmp_path: Path) -> str:
    """A packed recipe for a model with this configuration and the tiny tokenizer."""
    model = tmp_path / "model"
    config.vocab_size = 512
    config.save_pretrained(model)
    for file in (tiny / "text-model").glob("*token*"):
        (model / file.name).write_bytes(file.read_bytes())
    (model / "chat_template.jinja").write_bytes((tiny / "text-model/chat_template.jinja").read_bytes())
    recipe = {
        "model": {"name": str(model)},
        "lora": {},
        "data": {"name": str(tiny / "emoji"), "rows": 8, "reply": "emoji", "prompt": "{text}"},
        "training": {"packing": True, "max_length": 400},
    }
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    return f"--recipe={tmp_path}/recipe.yaml"


@pytest.mark.parametrize("options", [["--dry-run"], ["--run=mine"]], ids=["dry-run", "run"])
def test_a_model_that_cannot_write_is_refused_before_its_weights(
    options: list[str], tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(transformers.BertConfig(), tiny, tmp_path)
    assert main(["local", recipe, f"--storage={tmp_path}/store", *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        f"error: model {tmp_path}/model cannot be trained to write: a token of BertLMHeadModel sees those "
        "behind it; take a model that writes text"
    )


def test_without_a_small_copy_rows_share_no_pack_and_nothing_ends(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four heads cannot share three keys, so no plain pass works in any form."""
    config = transformers.LlamaConfig(hidden_size=64, num_attention_heads=4, num_key_value_heads=3)
    with pytest.raises(NoSmallModel):
        see(config)
    assert main(["local", recipe_of(config, tiny, tmp_path), "--dry-run"]) == 0
    (line, *_) = capsys.readouterr().out.splitlines()
    assert line.startswith("packing and the shared prefix are off") and "no small copy" in line
