"""Preflight reads on the Hub whether vLLM would start with a model."""

from typing import Any

import pytest

from operations.findings import Level
from tests.operations.changes import Change, assert_told, saying
from tests.operations.conftest import Check
from tests.operations.good_project import GoodProject, file_of

OK, PROBLEM = Level.FINE, Level.PROBLEM
CHAT, TRAINED, SMALL = "team/chat", "google/gemma-3-4b-it", "google/gemma-3-1b-it"
SHORT = {"text_config": {"max_position_embeddings": 2048}}
LONG = {"text_config": {"max_position_embeddings": 131072}}


def configured(model: str, **config: Any) -> Change:
    """The model has this config.json."""
    return saying(file_of(model, "config.json"), config)


CASES: list[tuple[str, Change, Level, str]] = [
    (
        "l4-kueue servingModel=team/chat",
        configured(CHAT, max_position_embeddings=2048),
        PROBLEM,
        "model team/chat has 2048 positions, and --max-model-len of its servers is 8192\nwrite "
        "--max-model-len=2048 or less into vllmArguments",
    ),
    (
        "l4-kueue servingModel=team/chat",
        configured(CHAT, num_attention_heads=9, num_key_value_heads=3),
        PROBLEM,
        "has 9 attention heads and 3 of keys, which 2 GPUs do not divide",
    ),
    (
        "l4-kueue servingModel=team/chat",
        configured(CHAT, max_position_embeddings=8192, num_attention_heads=8),
        OK,
        "a server takes model team/chat",
    ),
    (
        'l4-kueue servingModel=team/chat vllmArguments=["--max-model-len=16384"]',
        configured(CHAT, max_position_embeddings=8192),
        PROBLEM,
        "--max-model-len of its servers is 16384",
    ),
    # The look-up of the run gives the server the model's own length.
    ("l4-kueue serve=run", configured(TRAINED, **SHORT), OK, f"a server takes model {TRAINED}"),
    (
        'l4-kueue serve=run vllmArguments=["--max-model-len=4096"]',
        configured(TRAINED, **SHORT),
        PROBLEM,
        "has 2048 positions, and --max-model-len of its servers is 4096",
    ),
    ("cloudrun-vllm", configured(SMALL, **SHORT), PROBLEM, "--max-model-len of its servers is 4096"),
    (
        'cloudrun-vllm vllmArguments=["--max-model-len=2048"]',
        configured(SMALL, **SHORT),
        OK,
        f"a server takes model {SMALL}",
    ),
    ("cloudrun-vllm", configured(SMALL, **LONG), OK, f"a server takes model {SMALL}"),
]


@pytest.mark.parametrize(("stack", "change", "level", "words"), CASES)
def test_what_vllm_would_not_start_with_is_told_before_up(
    stack: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(stack, "served model", change, level, words, good, check)


@pytest.mark.parametrize("stack", ["cloudrun-vllm serve=nothing", "a4-ray"])
def test_a_stack_without_a_server_is_not_asked(stack: str, good: GoodProject, check: Check) -> None:
    plan = good.plan(*stack.split())
    configured(SMALL, **SHORT)(good)
    assert check(plan, "served model") == []


def test_a_configuration_that_is_none_says_nothing(good: GoodProject, check: Check) -> None:
    plan = good.plan("cloudrun-vllm")
    saying(file_of(SMALL, "config.json"), ["a list"])(good)
    assert check(plan, "served model") == []
