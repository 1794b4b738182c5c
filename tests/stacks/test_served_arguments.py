"""The command of `vllm serve` for a finished run."""

import pytest

from stacks.serving.served_run import _arguments

PLACE = ("a-bucket", "mine/sql-0123abcd")


@pytest.mark.parametrize(("template", "more"), [("", []), ("chat_template.jinja", ["--chat-template"])])
def test_an_adapter_is_served_with_the_chat_template_beside_it(template: str, more: list[str]) -> None:
    arguments = _arguments(*PLACE, "adapter", "google/gemma", "weights/gemma/model", 12, template)
    asked = [argument for argument in arguments if argument.startswith("--chat-template")]
    assert asked == [f"{option}=/run-of-the-job/adapter/{template}" for option in more]
    assert "--lora-modules=sql=/run-of-the-job/adapter" in arguments and "--max-lora-rank=16" in arguments


def test_a_merged_model_has_its_chat_template_among_its_files() -> None:
    assert _arguments(*PLACE, "model", "", "", 0, "")[0] == "/run-of-the-job/model"
