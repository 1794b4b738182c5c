"""The real vLLM tells what it serves: a run's model, an adapter without effect, another run's.

vLLM loads an adapter whose tensors have other names than the model's, lists it, and answers as the base.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from engine.project import ROOT
from operations.findings import Level
from operations.serving.check import Check, Row, verdicts
from operations.serving.connection import Connection
from operations.serving.server import ServedModel
from rehearsal.control_plane.api import until
from rehearsal.running_pods.surroundings import REAL_SERVER
from stacks.serving.served_run import lora_options
from tests.serving.visits import Visit

# The model on the Hub by the run. All have a part for pictures.
MODELS: Final = {"sql": "model", "gemma-4": "gemma-4-31b"}
# vLLM hands over a text as a list of parts, if a template takes one. Gemma 4's then writes another blank.
AS_TEXT: Final = "--chat-template-content-format=string"
BROKEN: Final = ("zero", "prefix", "other")
_PORT: Final = 8001
_START: Final = 1500.0  # seconds. On two idle cores it takes one or two minutes


def test_the_command_finds_what_the_stack_serves_the_same(visit: Visit) -> None:
    assert visit.verified
    if visit.shape.stack == "l4-kueue":
        assert visit.verified.returncode == 2
        assert "serves a model of the Hub" in visit.verified.stderr
        return
    findings = json.loads(visit.verified.stdout)["findings"]
    assert (visit.verified.returncode, {item["level"] for item in findings}) == (0, {"ok"}), findings
    steps = {"listed", "same", "prompt"}
    assert {item["topic"] for item in findings} == (steps | {"adapter"} if visit.shape.adapter else steps)


@dataclass(frozen=True, kw_only=True)
class Adapters:
    """A server of a run's adapter as `good`, and of the same adapter in three broken ways."""

    address: str
    folders: dict[str, Path]
    check: Check

    def problems(self, name: str) -> dict[str, str]:
        """What is told of an adapter, by the step."""
        model = ServedModel(name=name, path=str(self.folders[name]), bucket="runs", run="mine")
        findings = verdicts(Connection(self.address), model, self.check)
        return {finding.topic: finding.what for finding in findings if finding.level is not Level.FINE}


@pytest.fixture(scope="module", params=list(MODELS))
def adapters(request: pytest.FixtureRequest, tuned: Path) -> Iterator[Adapters]:
    run = tuned / request.param
    folders = {"good": run / "adapter", **{way: tuned / "adapters" / run.name / way for way in BROKEN}}
    command = [
        *(ROOT / ".venv-serving/bin/python", REAL_SERVER / "vllm", "serve", tuned / "hub" / MODELS[run.name]),
        *("--served-model-name=base", f"--port={_PORT}", "--max-model-len=2048", "--dtype=bfloat16"),
        *lora_options([f"{name}={folder}" for name, folder in folders.items()], rank=16),
        *([AS_TEXT] if run.name == "gemma-4" else []),
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    log, address = tuned / f"{run.name}.log", f"http://127.0.0.1:{_PORT}"
    kept = json.loads((run / "check.json").read_text())
    rows = [Row(**row) for row in kept["rows"]]
    with (
        log.open("w") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output) as server,
    ):
        try:
            until(lambda: f"a server: {log.read_text()[-3000:]}", lambda: _answers(server, address), _START)
            yield Adapters(address=address, folders=folders, check=Check(uri="gs://runs/mine", rows=rows))
        finally:
            server.terminate()


def _answers(server: "subprocess.Popen[bytes]", address: str) -> bool:
    assert server.poll() is None, "the server has ended"
    try:
        return urllib3.request("GET", f"{address}/health", retries=False).status == 200
    except HTTPError:
        return False


def test_a_good_adapter_is_the_same(adapters: Adapters) -> None:
    assert adapters.problems("good") == {}


@pytest.mark.parametrize("way", ["zero", "prefix"])
def test_an_adapter_without_an_effect_is_told(adapters: Adapters, way: str) -> None:
    (problem,) = adapters.problems(way).values()
    assert f"has the adapter {way} and does not use it" in problem
    assert "its base base, to the last digit" in problem


def test_another_run_is_told(adapters: Adapters) -> None:
    (problem,) = adapters.problems("other").values()
    assert "other is another model than gs://runs/mine has published" in problem
