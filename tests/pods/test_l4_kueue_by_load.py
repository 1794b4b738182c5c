"""The stack l4-kueue with trainers and servers that run: load brings a server, and the fine-tune gives way.

A small server stands for vLLM. Its answers take seconds, and its metrics have vLLM's names. Minutes of the
autoscaler pass in seconds.
"""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count
from typing import Final

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import Object, is_true
from rehearsal.control_plane.metrics_of_pods import MetricsOfPods
from rehearsal.running_pods.demonstration import servers, trainers
from rehearsal.running_pods.stage import Stage
from tests.hasten import hasten
from tests.pods.conftest import Play

pytestmark = pytest.mark.slow

AUTOSCALER: Final[Object] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "serving", "namespace": "llm"},
}
# A server of the rehearsal has four answers in progress before requests wait, of which four may.
CLIENTS: Final = 14
TOKENS: Final = 20


@contextmanager
def clients(stage: Stage) -> Generator[None]:
    """Clients that ask one question after the other, each a server in its turn."""
    over, turns = threading.Event(), count()

    def ask_on() -> None:
        while not over.is_set():
            ready = [pod for pod in stage.pods() if pod["metadata"]["labels"].get("app") == "serving"]
            addresses = [pod["status"]["podIP"] for pod in ready if is_true(pod, "Ready")]
            if not addresses:
                over.wait(1)
                continue
            url = f"http://{addresses[next(turns) % len(addresses)]}:8000/v1/chat/completions"
            question = {"messages": [], "stream": True, "max_tokens": TOKENS}
            try:
                urllib3.request("POST", url, json=question, retries=False, timeout=60)
            except HTTPError:
                over.wait(1)

    threads = [threading.Thread(target=ask_on, daemon=True) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_load_brings_a_server_and_the_fine_tune_saves_goes_and_comes_back(play: Play) -> None:
    # Enough steps for the time until the autoscaler acts.
    settings = {"servingReplicas": '{"min": 1, "max": 2}', "recipeSet": '{"training.epochs": 6}'}
    stage = play("l4-kueue", **settings)
    with MetricsOfPods(stage.api, stage.plane.keys):
        stage.stack.up()
        hasten(stage.api, AUTOSCALER)
        stage.waits_for("the first steps", stage.losses)
        assert servers(stage) == 1
        with clients(stage):
            stage.waits_for("the Job to be suspended", lambda: stage.now()["spec"]["suspend"])
            stage.waits_for("the trainers to end", lambda: not trainers(stage))
            saved = stage.saved()
            assert saved, "the stop has saved nothing"
            stage.waits_for("two servers", lambda: servers(stage) == 2)
        stage.waits_for("one server", lambda: servers(stage) == 1)
        stage.waits_for("the end of the fine-tune", stage.outcome)
    assert stage.outcome() == "Complete CompletionsReached"
    assert any(f"processes, from step {saved}\n" in stage.kubelet.log(pod) for pod in trainers(stage))
