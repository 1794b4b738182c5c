"""A stack that serves a finished run: the run, which is there before `up`, and the server's answer."""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from engine.project import ROOT
from rehearsal import finished_run
from rehearsal.run.stage import Stage

_MAKE_RUN: Final = (str(ROOT / ".venv-training/bin/python"), "-W", "ignore", "-m", "rehearsal.run.tiny_run")
_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
_QUESTION: Final = "How many red lamps are there?"
_TOKENS: Final = 16
_SECONDS: Final = 60.0


def make_run(stage: Stage, models: Path) -> None:
    """Fine-tunes a tiny model to the run that the stack's settings name.

    Args:
        models: The folder of the Hub's repositories.
    """
    values = {key.rpartition(":")[2]: value for key, value in stage.stack.configuration.plain.items()}
    run = stage.around.buckets.folder / finished_run.path_of(values[finished_run.SETTING])
    run.parent.mkdir(parents=True, exist_ok=True)
    variables = os.environ | {"HF_HUB_OFFLINE": "1", "TMPDIR": str(models.parent)}
    subprocess.run([*_MAKE_RUN, models, run], check=True, env=variables, cwd=ROOT, stdout=subprocess.DEVNULL)


def answer(stage: Stage, *, is_real: bool) -> Iterator[str]:
    """Waits for a server and asks it a question. Yields lines about it.

    Args:
        is_real: Whether the server is vLLM and not the small one, which answers nothing but probes.
    """
    (deployment,) = (item.inputs for item in stage.stack.cloud.of_type(_DEPLOYMENT))

    def is_available() -> bool:
        return bool((stage.api.get(deployment) or {}).get("status", {}).get("availableReplicas"))

    stage.waits_for("a server", is_available)
    yield "the server is ready"
    if not is_real:
        return
    address = f"http://{stage.pods()[-1]['status']['podIP']}:8000/v1"
    (model,) = (entry["id"] for entry in _json(f"{address}/models")["data"])
    question = {"role": "user", "content": _QUESTION}
    body = {"model": model, "messages": [question], "temperature": 0, "max_tokens": _TOKENS}
    reply = _json(f"{address}/chat/completions", body)
    yield f"{model} answers: {reply['choices'][0]['message']['content']!r}"


def _json(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=_SECONDS) as response:
        return json.load(response)
