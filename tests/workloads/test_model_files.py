"""A download brings the weights of a repository once, in the form that transformers and vLLM read."""

from pathlib import Path

import pytest

from finetune.model.loading import fetch_model
from finetune.settings.sections import Model
from rehearsal.stand_ins.hub import Hub
from shared.model_files import is_weights, wanted

# Files as published: those of a repository that are wanted, and its other weights and programs.
LISTINGS = {
    "openai/gpt-oss-20b": (
        "config.json model-00000-of-00002.safetensors model-00001-of-00002.safetensors "
        "model.safetensors.index.json chat_template.jinja tokenizer.json",
        "original/model.safetensors metal/model.bin",
    ),
    "mistralai/Mistral-7B-Instruct-v0.3": (
        "config.json model-00001-of-00003.safetensors model-00003-of-00003.safetensors "
        "model.safetensors.index.json tokenizer.model",
        "consolidated.safetensors tokenizer.model.v3",
    ),
    "meta-llama/Llama-3.1-8B-Instruct": (
        "config.json model-00001-of-00004.safetensors model.safetensors.index.json",
        "original/consolidated.00.pth",
    ),
    "openai-community/gpt2": (
        "config.json model.safetensors merges.txt vocab.json",
        "64.tflite flax_model.msgpack onnx/decoder_model.onnx pytorch_model.bin rust_model.ot tf_model.h5",
    ),
    "openai/whisper-large-v3": (
        "config.json model.safetensors",
        "flax_model.msgpack model.fp32-00001-of-00002.safetensors pytorch_model.bin",
    ),
    "google/gemma-2b": (
        "config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors",
        "gemma-2b.gguf",
    ),
    "deepseek-ai/DeepSeek-V3": ("config.json model-00001-of-000163.safetensors", "inference/model.py"),
    "moonshotai/Kimi-K2-Instruct": ("config.json model-1-of-61.safetensors", "modeling_deepseek.py"),
    "parts named after the whole file": (
        "config.json model.safetensors-00001-of-00014.safetensors",
        "model.fp16.safetensors adapter_model.safetensors model_fp8.safetensors",
    ),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_weights_are_wanted_once(name: str) -> None:
    needed, others = map(str.split, LISTINGS[name])
    assert wanted([*others, *needed]) == needed
    assert any(map(is_weights, needed))
    assert not any(map(is_weights, others))


def test_the_trainer_downloads_what_is_wanted(tmp_path: Path, hub: Hub) -> None:
    needed, others = map(str.split, LISTINGS["openai/gpt-oss-20b"])
    for path in (*needed, *others):
        file = tmp_path / "repository" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}")
    hub.model("team/many").push(tmp_path / "repository")
    folder = fetch_model(Model(name="team/many"))
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {*needed}
