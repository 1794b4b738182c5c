"""A client's visit to a server: everything it asks between the server's start and its end."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory
from typing import Any, Final

import urllib3
from urllib3.exceptions import HTTPError

from engine.project import ROOT
from rehearsal.control_plane.api import until
from rehearsal.pods.pod import Pod
from rehearsal.running_pods.surroundings import Surroundings
from rehearsal.session import Rehearsal
from tests import plans
from tests.operations.forwarding_cluster import ForwardingCluster, plant_server
from tests.operations.google_buckets import GoogleBuckets
from tests.prometheus import Prometheus, charts, cluster_of, port_of, scrape_config
from tests.serving.shapes import Shape, served_name

_PORT: Final = 8000
_START: Final = 1500.0  # seconds. On two idle cores it takes one or two minutes
_ANSWERS: Final = 120.0  # until most clients are in the middle of an answer
_CLIENTS: Final = 16
_IN_PROGRESS: Final = 12
# Tokens of a client's answer, at most. It takes a part of the time that a server has for its last answers.
_LAST_TOKENS: Final = 250
_FIRST_TOKENS: Final = 16
_PART: Final = 0.15


@dataclass(kw_only=True)
class Request:
    """A streamed request, with times in seconds.

    Attributes:
        sent: When it was sent.
        began: When its first token came, 0 if none did.
        ended: When its answer or its connection ended, 0 before that.
        whole: Whether the answer ended as an answer ends, not with an error.
        last_line: The last line of the answer, or why there is none.
    """

    sent: float
    began: float = 0.0
    ended: float = 0.0
    whole: bool = False
    last_line: str = ""


@dataclass(kw_only=True)
class Visit:
    """What a client has seen of a server.

    Args:
        shape: The server's stack.
        name: The name of the model.
        expected: Prompts and answers by transformers and peft: tuned.py.

    Attributes:
        health: The status of /health.
        names: The names of the models.
        answers: The tokens of the greedy answers to the prompts, by the name of the model.
        in_parts: The same to the prompts as contents with parts.
        unknown, too_long: Status and message for an unknown model, and for a prompt that is too long.
        metrics: The text of /metrics.
        unanswered: The queries of the stack's dashboard about its servers that Prometheus has no answer to.
        asked_of_the_hub: The paths that the server asked the Hub for, from its start to its end.
        typed: What `python -m operations ask` prints for the prompts.
        verified: What `python -m operations verify` prints.
        last: The requests of sixteen clients, from before the server's end until it answers no more.
        sigterm: When SIGTERM was sent to it.
        exit_code: How it ended.
    """

    shape: Shape
    name: str
    expected: Mapping[str, Any]
    health: int = 0
    names: list[str] = field(default_factory=list)
    answers: dict[str, list[list[int]]] = field(default_factory=dict)
    in_parts: list[list[int]] = field(default_factory=list)
    unknown: tuple[int, str] = (0, "")
    too_long: tuple[int, str] = (0, "")
    metrics: str = ""
    unanswered: list[str] = field(default_factory=list)
    asked_of_the_hub: list[str] = field(default_factory=list)
    typed: list[CompletedProcess[str]] = field(default_factory=list)
    verified: CompletedProcess[str] | None = None
    last: list[Request] = field(default_factory=list)
    sigterm: float = 0.0
    exit_code: int | None = None


def visited(shape: Shape, around: Surroundings, tuned: Path) -> Visit:
    """Starts the server of a stack, asks it, ends it as the platform does."""
    settings = {**plans.known_settings(shape.stack, imageUri=plans.IMAGE), **shape.settings}
    rehearsal = Rehearsal(shape.stack, settings)
    rehearsal.buckets = around.buckets.folder
    shape.place(rehearsal.buckets, tuned / shape.run)
    plans.open_to_the_end(rehearsal).up()
    around.cloud = rehearsal.cloud
    around.hub.tokens = {text: set() for text in rehearsal.configuration.secret.values()}
    around.hub.requests.clear()
    expected = json.loads((tuned / "answers.json").read_text())[shape.run]
    pod = shape.start(rehearsal, around, tuned / shape.run)
    visit = Visit(shape=shape, name=served_name(pod), expected=expected)
    try:
        log = around.machine.log(pod.tree, pod.tree["spec"]["containers"][0]["name"])
        until(lambda: f"a ready server: {log.read_text()[-3000:]}", lambda: _is_ready(pod, log), _START)
        with _observed(visit, rehearsal, pod, tuned):
            _ask(visit, f"http://{pod.address}:{_PORT}")
        *visit.typed, visit.verified = _typed(visit, rehearsal, pod, around)
        _end(visit, pod)
        visit.asked_of_the_hub = list(around.hub.requests)
    finally:
        pod.close()
    return visit


@contextmanager
def _observed(visit: Visit, rehearsal: Rehearsal, pod: Pod, folder: Path) -> Generator[None]:
    """Prometheus looks on, where the stack wants it to, and is then asked what the dashboard asks."""
    kind = "kubernetes:monitoring.googleapis.com/v1:PodMonitoring"
    monitorings = {item.inputs["metadata"]["name"]: item.inputs for item in rehearsal.cloud.of_type(kind)}
    if "serving" not in monitorings:
        yield
        return
    plan = plans.standing_plan(rehearsal)
    queries = [query for queries in charts(plan).values() for query in queries if "vllm:" in query]
    address = f"{pod.address}:{port_of(pod.tree, monitorings['serving'])}"
    # There is no API server, and no secret to ask it for.
    job = scrape_config(None, monitorings["serving"], {"server": address}, cluster_of(plan))
    place = folder / f"prometheus-{visit.shape.stack}"
    place.mkdir()
    with Prometheus(place, [job]) as prometheus:
        prometheus.comes_to_know("vllm:num_requests_running")
        yield
        visit.unanswered = [query for query in queries if not prometheus.knows(query)]


def _status(pod: Pod) -> Mapping[str, Any]:
    return next(iter((pod.tree.get("status") or {}).get("containerStatuses") or ()), {})


def _is_ready(pod: Pod, log: Path) -> bool:
    status = _status(pod)
    assert not status.get("restartCount"), f"the server ended before it was ready: {log.read_text()}"
    return bool(status.get("ready"))


def _ask(visit: Visit, address: str) -> None:
    def post(model: str, content: object, tokens: int = 24) -> tuple[int, Any]:
        messages = [{"role": "user", "content": content}]
        question = {"model": model, "messages": messages, "temperature": 0, "max_tokens": tokens}
        # The text would leave out a character whose last token is missing.
        question["return_token_ids"] = True
        answer = urllib3.request("POST", f"{address}/v1/chat/completions", json=question, timeout=300)
        return answer.status, answer.json()

    def tokens_of(model: str, content: object) -> list[int]:
        status, answer = post(model, content)
        assert status == 200, answer
        return answer["choices"][0]["token_ids"]

    prompts = visit.expected["prompts"]
    visit.health = urllib3.request("GET", f"{address}/health").status
    visit.names = [model["id"] for model in urllib3.request("GET", f"{address}/v1/models").json()["data"]]
    for model in filter(None, (visit.name, visit.shape.adapter)):
        visit.answers[model] = [tokens_of(model, prompt) for prompt in prompts]
    visit.in_parts = [tokens_of(visit.name, [{"type": "text", "text": prompt}]) for prompt in prompts]
    for attribute, model, content in (
        ("unknown", "somebody/else", prompts[0]),
        ("too_long", visit.name, "soft " * 10_000),
    ):
        status, answer = post(model, content)
        setattr(visit, attribute, (status, answer["error"]["message"]))
    visit.metrics = urllib3.request("GET", f"{address}/metrics").data.decode()


def _typed(
    visit: Visit, rehearsal: Rehearsal, pod: Pod, around: Surroundings
) -> Iterator[CompletedProcess[str]]:
    """The operator's commands: through the port of a pod, or at the address of an instance."""
    template = next(iter(rehearsal.cloud.of_type("kubernetes:apps/v1:Deployment")), None)
    labels = template.inputs["spec"]["selector"]["matchLabels"] if template else {}
    pods = f"/api/v1/namespaces/{pod.tree['metadata']['namespace']}/pods"
    environment = os.environ | {"PULUMI_BACKEND_URL": f"file://{rehearsal.backend}"}
    form, prompts = visit.shape.form, visit.expected["prompts"]
    questions = [["--as-is", it] if form is None else [it.removeprefix(form)] for it in prompts]
    with (
        GoogleBuckets(around.buckets.folder) as google,
        ForwardingCluster({f"{pods}/server:{_PORT}": (pod.address, _PORT)}) as cluster,
        TemporaryDirectory() as folder,
    ):
        plant_server(cluster, pods, "server", **labels)
        reach = ["--kubeconfig", str(cluster.kubeconfig(Path(folder)))]
        reach = reach if labels else ["--url", f"http://{pod.address}:{_PORT}"]
        for name, *more in (
            *(["ask", *question] for question in questions),
            ["verify", "--json", "--endpoint", google.address],
        ):
            yield subprocess.run(
                [sys.executable, "-m", "operations", name, "--stack", visit.shape.stack, *reach, *more],
                env=environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )


def _end(visit: Visit, pod: Pod) -> None:
    """Ends the pod as its platform does, while sixteen clients ask one question after the other."""
    container = pod.tree["spec"]["containers"][0]["name"]
    process = pod.process(container)
    send = process.signal

    def signal_and_note(number: signal.Signals) -> None:
        if number == signal.SIGTERM:
            visit.sigterm = time.monotonic()
        send(number)

    process.signal = signal_and_note
    grace = float(pod.tree["spec"]["terminationGracePeriodSeconds"])
    tokens = _tokens_in(_PART * grace, visit.name, pod.address)
    clients = [
        threading.Thread(target=_ask_on, args=(visit, pod.address, tokens), daemon=True)
        for _ in range(_CLIENTS)
    ]
    for client in clients:
        client.start()
    # Seldom all at once: some are between two questions.
    until(lambda: "answers that have begun", lambda: _in_progress(visit) >= _IN_PROGRESS, _ANSWERS)
    pod.leave(grace)
    pod.thread.join()
    for client in clients:
        client.join()
    visit.exit_code = _status(pod)["state"]["terminated"]["exitCode"]


def _in_progress(visit: Visit) -> int:
    return sum(bool(request.began and not request.ended) for request in list(visit.last))


def _question(model: str, tokens: int) -> dict[str, Any]:
    return {
        "model": model,
        "messages": [{"role": "user", "content": "soft wool"}],
        "temperature": 0,
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
    }


def _tokens_in(seconds: float, model: str, address: str) -> int:
    """Tokens of an answer that takes so long on this machine as it is now, while all clients ask."""
    url, question = f"http://{address}:{_PORT}/v1/chat/completions", _question(model, _FIRST_TOKENS)
    begin = time.monotonic()
    with ThreadPoolExecutor(_CLIENTS) as clients:
        [*clients.map(lambda _: _follow(Request(sent=begin), url, question), range(_CLIENTS))]
    rate = _FIRST_TOKENS / (time.monotonic() - begin)
    return max(_FIRST_TOKENS, min(_LAST_TOKENS, int(rate * seconds)))


def _ask_on(visit: Visit, address: str, tokens: int) -> None:
    """Asks until a request fails, as it does after SIGTERM."""
    question = _question(visit.name, tokens)
    is_answered = True
    while is_answered:
        visit.last.append(request := Request(sent=time.monotonic()))
        try:
            _follow(request, f"http://{address}:{_PORT}/v1/chat/completions", question)
        except (HTTPError, OSError) as error:
            request.last_line = repr(error)
        request.ended = time.monotonic()
        is_answered = request.whole


def _follow(request: Request, url: str, question: Mapping[str, Any]) -> None:
    answer = urllib3.request(
        "POST", url, json=question, preload_content=False, retries=False, timeout=urllib3.Timeout(60)
    )
    for line in answer:
        if b'"choices"' in line and not request.began:
            request.began = time.monotonic()
        request.whole |= b'"finish_reason":"length"' in line
        request.last_line = line.decode().strip() or request.last_line
