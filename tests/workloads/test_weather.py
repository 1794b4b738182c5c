"""Exceptions that may pass, and those of the input: one line, and the exit code of each."""

import builtins
import errno
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from published import FAMILIES, make_published
from test_published import FEW, recipe_of, start

from shared.errors import InputError, PassingError
from shared.weather import NUMBERS, PASSING, explained, in_one_line, owner


def error_of(name: str) -> BaseException:
    module, _, kind = name.rpartition(".")
    error = getattr(import_module(module) if module != "builtins" else builtins, kind)
    return error.__new__(error)


@pytest.mark.parametrize("name", [name for name in PASSING if not name.startswith("requests.")])
def test_every_class_of_the_table_exists_and_passes(name: str) -> None:
    try:
        error = error_of(name)
    except ModuleNotFoundError:
        assert name.startswith(("httpx.", "ray."))
        return
    assert owner(error) == PASSING[name]


def test_a_number_of_the_system_passes_and_another_does_not() -> None:
    for number, who in NUMBERS.items():
        assert owner(OSError(number, os.strerror(number))) == who
    for number in (errno.ENOENT, errno.EACCES, errno.EISDIR):
        assert owner(OSError(number, os.strerror(number))) is None


@pytest.mark.parametrize(
    ("words", "who"),
    [
        ("DataLoader worker (pid 7) is killed by signal: Killed.", "the node"),
        ("CUDA error: an illegal memory access was encountered", "the GPU"),
        ("NCCL error in: ProcessGroupNCCL.cpp:1", "another process"),
        ("[enforce fail] Connection closed by peer [10.0.0.1]:1", "another process"),
        ("The size of tensor a (4) must match the size of tensor b (192)", None),
        ("index out of range in self", None),
    ],
)
def test_the_words_of_a_bare_error_tell_its_owner(words: str, who: str | None) -> None:
    assert owner(RuntimeError(words)) == who


def test_an_error_that_came_of_one_that_passes_does_too() -> None:
    error = ValueError("no such rows")
    error.__cause__ = ConnectionResetError()
    assert owner(error) == "the network"


def test_an_answer_of_the_hub_passes_by_its_status() -> None:
    class Refused(Exception):
        def __init__(self, status: int):
            self.response = type("Response", (), {"status_code": status})

    assert [owner(Refused(status)) for status in (404, 429, 503)] == [None, "the Hub", "the Hub"]


def test_too_little_gpu_memory_is_of_the_input_with_its_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    error = explained(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert isinstance(error, InputError) and "lower training.batch_size" in str(error)


@pytest.mark.parametrize("kind", [InputError, PassingError, KeyboardInterrupt, SystemExit])
def test_an_end_of_ours_stays_what_it_is(
    kind: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind), in_one_line():
        raise kind
    assert not capsys.readouterr().err


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    return fail


PLACES = {
    "rows": "finetune.run.training.load_conversations",
    "tokens": "finetune.run.turns.to_tokens",
    "model": "finetune.run.training.load_model",
    "first step": "finetune.run.trainer.RowTrainer.training_step",
    "answers": "finetune.run.answers.Answers._replies",
    "publication": "finetune.results.result.merge_adapter",
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyError("nothing"), 2), (ConnectionResetError("by peer"), 1)],
    ids=["input", "weather"],
)
def test_an_exception_in_any_part_of_a_run_ends_in_one_line(
    place: str,
    error: Exception,
    code: int,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recipe = recipe_of(make_published(FAMILIES[FEW], tmp_path / "model"), tiny, tmp_path)
    monkeypatch.setattr(PLACES[place], raising(error))
    assert start(recipe) == code
    lines = capsys.readouterr().err.splitlines()
    assert type(error).__name__ in lines[-1] and lines[-1].startswith("error: ")
    assert [line for line in lines if line.startswith("Traceback")]
    remembered = tmp_path / "store/mine/ended.json"
    assert remembered.exists() == (code == 2)
