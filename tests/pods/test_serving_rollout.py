"""The stack serve takes another run while clients ask: no request is lost.

A small server stands for vLLM. It takes seconds for an answer, which names the run, and ends as vLLM does.
"""

import json
import random
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import Api, Object
from rehearsal.fakes import finished_run
from rehearsal.running_pods.stage import Stage
from rehearsal.running_pods.surroundings import Surroundings
from stacks.serving import vllm
from tests import plans
from tests.pods.conftest import Play

pytestmark = pytest.mark.slow

_CLIENTS: Final = 8  # of each length
_DEPLOYMENT: Final = "kubernetes:apps/v1:Deployment"
# A long answer takes twice the pause before SIGTERM. A short one begins at any time.
_LONG, _SHORT = 200, 3
_SECONDS_PER_TOKEN: Final = 0.1  # of the small server
# How long a node may still send requests to an endpoint that is gone. On a large cluster it takes seconds.
_LAG: Final = 2.0
_OLD, _NEW = "gs://rehearsal-runs/gemma-3-4b-sql-0a1b2c3d", "gs://rehearsal-runs/gemma-3-4b-sql-4e5f6071"


@dataclass
class Clients:
    """Clients of a Service that ask one question after the other.

    Args:
        api: The API server.
        labels: The labels of the Service's EndpointSlices.

    Attributes:
        answers: What the answers said.
        lost: Why requests have no whole answer.
    """

    api: Api
    labels: dict[str, str]
    answers: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._addresses: list[str] = []
        self._over = threading.Event()

    @contextmanager
    def asking(self) -> Generator[None]:
        """The clients ask in this context."""
        self._look()
        threads = [threading.Thread(target=self._follow_endpoints, daemon=True)]
        for number in range(_CLIENTS):
            for tokens in (_LONG, _SHORT):
                # The clients' answers end one after the other, and not all at once.
                pause = tokens * _SECONDS_PER_TOKEN * number / _CLIENTS
                threads.append(threading.Thread(target=self._ask_on, args=(tokens, pause), daemon=True))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _look(self) -> None:
        slices = self.api.list("discovery.k8s.io/v1", "EndpointSlice", labels=self.labels)
        endpoints = [endpoint for part in slices for endpoint in part.get("endpoints") or ()]
        ready = [endpoint for endpoint in endpoints if endpoint["conditions"].get("ready")]
        self._addresses = [address for endpoint in ready for address in endpoint["addresses"]]

    def _follow_endpoints(self) -> None:
        while not self._over.wait(_LAG):
            self._look()

    def _ask_on(self, tokens: int, pause: float) -> None:
        self._over.wait(pause)
        while not self._over.is_set():
            try:
                self.answers.append(self._ask(tokens))
            except (HTTPError, OSError, IndexError, KeyError) as error:
                self.lost.append(repr(error))
                # A client that is refused asks again later.
                self._over.wait(1)

    def _ask(self, tokens: int) -> str:
        """The run that answers. Raises an error if the answer is not whole."""
        address = f"http://{random.choice(self._addresses)}:{vllm.PORT}/v1/chat/completions"
        messages = [{"role": "user", "content": "?"}]
        question = {"messages": messages, "stream": True, "max_tokens": tokens}
        lines = urllib3.request("POST", address, json=question, retries=False, timeout=30).data.splitlines()
        if b"data: [DONE]" not in lines:
            raise HTTPError("the answer has no end")
        return json.loads(lines[0].removeprefix(b"data: "))["choices"][0]["delta"]["content"]


def write(around: Surroundings, run: str) -> None:
    """Writes a finished run, whose model names it."""
    folder = around.buckets.folder / finished_run.path_of(run)
    finished_run.write_run(folder, gigabytes=0.001)
    config = json.dumps({"run": run})
    (folder / "model" / "config.json").write_text(config)
    complete = folder / "COMPLETE.json"
    sizes = {"model": json.loads(complete.read_text())["model"] | {"config.json": len(config)}}
    complete.write_text(json.dumps(sizes))


def deployment(stage: Stage) -> Object:
    """The servers as the program declares them."""
    (item,) = stage.stack.cloud.of_type(_DEPLOYMENT)
    return item.inputs


def is_rolled_out(stage: Stage) -> bool:
    """Whether all servers are of the newest template, and no other is left."""
    status = (stage.api.get(deployment(stage)) or {}).get("status") or {}
    return status.get("updatedReplicas") == status.get("availableReplicas") == status.get("replicas") == 1


@pytest.fixture(scope="module")
def stage(play: Play, around: Surroundings) -> Stage:
    """The stack, whose server serves the old run."""
    write(around, _OLD)
    stage = play("serve", servedRun=_OLD)
    stage.stack.up()
    stage.waits_for("a server", lambda: is_rolled_out(stage))
    return stage


def test_another_run_takes_over_and_no_request_is_lost(stage: Stage, around: Surroundings) -> None:
    write(around, _NEW)
    name = deployment(stage)["metadata"]["name"]
    clients = Clients(stage.api, {"kubernetes.io/service-name": name})
    with clients.asking():
        stage.waits_for("answers", lambda: len(clients.answers) > _CLIENTS)
        stage.stack.configure(plans.keys({"servedRun": _NEW}))
        stage.stack.up()
        stage.waits_for("the new server", lambda: is_rolled_out(stage) and len(stage.pods()) == 1)
        answered = len(clients.answers)
        stage.waits_for("its answers", lambda: len(clients.answers) > answered + 2 * _CLIENTS)
    assert clients.lost == []
    runs = [json.loads(answer)["run"] for answer in clients.answers]
    assert list(dict.fromkeys(runs)) == [_OLD, _NEW]
    assert runs[-1] == _NEW
