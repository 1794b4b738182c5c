"""The command of `vllm serve` for a finished run."""

import pytest

from stacks.serving.served_run import Model, _arguments

MODEL: Model = {
    "bucket": "a-bucket",
    "folder": "mine/sql-0123abcd",
    "kind": "model",
    "base": "",
    "base_folder": "",
    "rank": 0,
    "template": "",
    "pictures": False,
    "length": 8192,
}


def adapter(*, rank: int = 12, folder: str = MODEL["folder"], template: str = "") -> Model:
    model: Model = {**MODEL, "kind": "adapter", "rank": rank, "folder": folder, "template": template}
    return {**model, "base": "google/gemma", "base_folder": "weights/gemma/model"}


@pytest.mark.parametrize(("template", "more"), [("", []), ("chat_template.jinja", ["--chat-template"])])
def test_an_adapter_is_served_with_the_chat_template_beside_it(template: str, more: list[str]) -> None:
    arguments = _arguments([adapter(template=template)])
    asked = [argument for argument in arguments if argument.startswith("--chat-template")]
    assert asked == [f"{option}=/run-of-the-job/adapter/{template}" for option in more]
    assert "--lora-modules=sql=/run-of-the-job/adapter" in arguments and "--max-lora-rank=16" in arguments


def test_a_merged_model_has_its_chat_template_among_its_files() -> None:
    assert _arguments([MODEL])[0] == "/run-of-the-job/model"


def test_several_adapters_have_a_place_each_as_large_as_the_largest_rank() -> None:
    arguments = _arguments([adapter(), adapter(rank=64, folder="mine/emoji-4567cdef")])
    start = arguments.index("--lora-modules")
    assert arguments[start + 1 : start + 3] == [
        "sql=/run-of-the-job/adapter",
        "emoji=/run-of-the-job-2/adapter",
    ]
    assert arguments[start + 3 :] == ["--max-loras=2", "--max-cpu-loras=2", "--max-lora-rank=64"]
