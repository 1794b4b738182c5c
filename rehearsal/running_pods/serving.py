"""A stack that serves a finished run: the run, which is there before `up`, and the server's answer."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import urllib3

from engine.project import ROOT
from rehearsal.errors import RehearsalError
from rehearsal.fakes import finished_run
from rehearsal.running_pods.stage import Stage

_MAKE_RUN: Final = (
    str(ROOT / ".venv-training/bin/python"),
    "-W",
    "ignore",
    "-m",
    "rehearsal.running_pods.tiny_run",
)
_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
_QUESTION: Final[Mapping[str, Any]] = {
    "messages": [{"role": "user", "content": "How many red lamps are there?"}],
    "temperature": 0,
    "max_tokens": 16,
}
_SECONDS: Final = 60.0


def make_run(stage: Stage, models: Path) -> None:
    """Fine-tunes a tiny model to the run that the stack's settings name.

    Args:
        models: The folder of the Hub's repositories.
    """
    run = _run(stage)
    run.parent.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "TMPDIR": str(models.parent)}
    subprocess.run([*_MAKE_RUN, models, run], check=True, env=variables, cwd=ROOT, stdout=subprocess.DEVNULL)


def answer(stage: Stage, *, is_real: bool) -> Iterator[str]:
    """Waits for a server and asks it a question. Yields lines about it.

    Args:
        is_real: Whether the server is vLLM and not the small one, which answers with its model's config.json.

    Raises:
        RehearsalError: If the answer is not of the run's model.
    """
    (deployment,) = (item.inputs for item in stage.stack.cloud.of_type(_DEPLOYMENT))

    def is_available() -> bool:
        return bool((stage.api.get(deployment) or {}).get("status", {}).get("availableReplicas"))

    stage.waits_for("a server", is_available)
    yield "the server is ready"
    address = f"http://{stage.pods()[-1]['status']['podIP']}:8000/v1"
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    yield _answer_of_vllm(container["args"], address) if is_real else _answer_of_small_server(stage, address)


def _answer_of_vllm(arguments: Sequence[str], address: str) -> str:
    """A line with the answer. vLLM says which folder the model is from, and how many tokens it has made."""
    (model,) = json.loads(_content(f"{address}/models"))["data"]
    name = model["id"]
    if model["root"] != arguments[0] or f"--served-model-name={name}" not in arguments:
        raise RehearsalError(f"the server has the model {name} of {model['root']}, not that of its arguments")
    reply = json.loads(_content(f"{address}/chat/completions", {**_QUESTION, "model": name}))
    if not reply["usage"]["completion_tokens"]:
        raise RehearsalError(f"{name} answers without a token: {reply}")
    return f"{name} answers: {reply['choices'][0]['message']['content']!r}"


def _answer_of_small_server(stage: Stage, address: str) -> str:
    """A line about the answer, which names the model."""
    lines = _content(f"{address}/chat/completions", {**_QUESTION, "stream": True}).splitlines()
    text = json.loads(lines[0].removeprefix(b"data: "))["choices"][0]["delta"]["content"]
    if text != (_run(stage) / "model/config.json").read_text():
        raise RehearsalError(f"the server answers with another model than that of the run: {text}")
    return f"the server has read the model of {_run(stage).name}"


def _run(stage: Stage) -> Path:
    """The folder of the run that the stack's settings name."""
    values = {key.rpartition(":")[2]: value for key, value in stage.stack.configuration.plain.items()}
    return stage.around.buckets.folder / finished_run.path_of(values[finished_run.SETTING])


def _content(url: str, body: Mapping[str, Any] | None = None) -> bytes:
    answer = urllib3.request("POST" if body else "GET", url, json=body, retries=False, timeout=_SECONDS)
    if answer.status != HTTPStatus.OK:
        raise RehearsalError(f"the server answers {url} with {answer.status}: {answer.data.decode()}")
    return answer.data
