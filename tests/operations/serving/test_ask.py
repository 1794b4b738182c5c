"""`python -m operations ask`, as it is typed, against servers of models on loopback."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3

from operations.google.clients import Clients
from operations.serving.chat import answer, served_model
from operations.serving.connection import connected
from operations.state import State
from tests.operations.conftest import Command
from tests.operations.forwarding_cluster import ForwardingCluster, fails, plant_server
from tests.operations.google_server import REFUSED, GoogleServer
from tests.operations.past_stack import PastStack
from tests.operations.serving.conftest import PODS
from tests.operations.serving.model_server import CHAT, MODELS, TEXT, ModelServer

ANSWER = "\N{BANANA}\N{FORK AND KNIFE}\n"


def last_line(text: str) -> str:
    """The only line of a text."""
    (line,) = text.splitlines()
    return line


# A server in a cluster


def test_the_answer_alone_is_printed(command: Command, on_gke: tuple[str, ...], model: ModelServer) -> None:
    assert command("ask", *on_gke, "I ate a banana") == (0, ANSWER, "")
    assert model.question == {
        "model": "a-model",
        "messages": [{"role": "user", "content": "I ate a banana"}],
        "temperature": 0,
        "stream": True,
    }


def test_an_answer_is_read_while_it_arrives(
    neutral: PastStack, cluster: ForwardingCluster, model: ModelServer, clients: Clients, tmp_path: Path
) -> None:
    model.go_on.clear()
    with connected(neutral.alive, "neutral", lambda: clients, cluster.kubeconfig(tmp_path)) as connection:
        parts = filter(None, answer(connection, "a-model", [{"role": "user", "content": "?"}]))
        assert next(parts) == "\N{BANANA}"
        model.go_on.set()
        assert list(parts) == ["\N{FORK AND KNIFE}"]


def test_the_port_is_closed_after_the_answer(
    neutral: PastStack, cluster: ForwardingCluster, model: ModelServer, clients: Clients, tmp_path: Path
) -> None:
    with connected(neutral.alive, "neutral", lambda: clients, cluster.kubeconfig(tmp_path)) as connection:
        assert served_model(connection) == "a-model"
    with pytest.raises(urllib3.exceptions.HTTPError):
        urllib3.request("GET", connection.url, retries=False)
    assert cluster.closed.acquire(timeout=10), "the connection to the pod stays open"


def test_a_pod_of_something_else_is_not_asked(
    command: Command, on_gke: tuple[str, ...], cluster: ForwardingCluster
) -> None:
    cluster._objects[PODS].clear()
    plant_server(cluster, PODS, "finetune-1", app="finetune")
    status, out, error = command("ask", *on_gke, "?")
    assert (status, out) == (2, "")
    assert last_line(error).startswith("operations ask: no server of serving runs; start one")


def test_a_cluster_behind_tls_gets_the_operators_token(
    neutral: PastStack,
    port: tuple[str, int],
    google: GoogleServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Clients, "token", lambda _: "a-token")
    with ForwardingCluster({f"{PODS}/serving-1:8000": port}, tmp_path / "key.pem") as cluster:
        plant_server(cluster, PODS, "serving-1", app="serving")
        described = {
            "endpoint": cluster.address.removeprefix("http://"),
            "masterAuth": {"clusterCaCertificate": base64.b64encode(cluster.certificate).decode()},
        }
        google.plant("container.v1", "container.projects.locations.clusters.get", described)
        with connected(neutral.alive, "neutral", lambda: Clients("p", google.address)) as connection:
            assert served_model(connection) == "a-model"
        assert cluster.tokens == ["Bearer a-token"]


def test_a_server_that_waits_says_why(
    command: Command, on_gke: tuple[str, ...], cluster: ForwardingCluster
) -> None:
    cluster._objects[PODS].clear()
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    metadata = {"name": "serving-2", "labels": {"app": "serving"}}
    cluster.plant(PODS, {"metadata": metadata, "status": {"phase": "Pending", "conditions": gated}})
    status, out, error = command("ask", *on_gke, "?")
    assert (status, out) == (2, "")
    assert last_line(error) == (
        "operations ask: no server of serving is ready: waits in the queue: Kueue has not admitted it; see "
        "python -m operations status --stack neutral"
    )


@pytest.mark.parametrize("path", [PODS, f"{PODS}/serving-1/portforward"])
def test_a_person_without_the_role_is_told_its_name(
    path: str, command: Command, on_gke: tuple[str, ...], cluster: ForwardingCluster
) -> None:
    cluster.fail(path, fails(403))
    status, out, error = command("ask", *on_gke, "?")
    assert (status, out) == (2, "")
    assert "403" in error
    assert last_line(error).endswith("--member user:YOU --role roles/container.developer")


def test_a_pod_that_does_not_answer_is_said_in_a_line(
    command: Command, on_gke: tuple[str, ...], cluster: ForwardingCluster
) -> None:
    cluster.error = "error forwarding port 8000: connection refused"
    status, out, error = command("ask", *on_gke, "?")
    assert (status, out) == (2, "")
    assert last_line(error) == (
        "operations ask: port-forward: error forwarding port 8000: connection refused"
    )


# A Cloud Run service


def test_the_question_has_the_form_of_the_recipe(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer
) -> None:
    assert command("ask", *on_cloud_run, "I ate a banana") == (0, ANSWER, "")
    assert model.question["messages"] == [{"role": "user", "content": "Translate to emoji: I ate a banana"}]


def test_as_it_is_the_question_goes_without_the_form(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer
) -> None:
    assert command("ask", *on_cloud_run, "--as-is", "I {ate} a banana").status == 0
    assert model.question["messages"] == [{"role": "user", "content": "I {ate} a banana"}]


def test_the_service_gets_the_callers_identity_token(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clients, "identity_token", lambda _, audience: f"for-{audience}")
    assert command("ask", *on_cloud_run, "?").status == 0
    assert {request.authorization for request in model.asked} == {f"Bearer for-{model.address}"}


def test_an_address_on_plain_http_gets_no_token(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Clients, "identity_token", lambda *_: "secret")
    assert command("ask", *on_cloud_run, "--url", model.address, "?").status == 0
    assert {request.authorization for request in model.asked} == {None}


def test_a_caller_who_may_not_call_is_told_the_role(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer
) -> None:
    model.faults[MODELS] = 403, b"<html><title>403 Forbidden</title></html>"
    status, out, error = command("ask", *on_cloud_run, "?")
    assert (status, out) == (2, "")
    assert "403; you may not call the service; add yourself to the setting invokers" in last_line(error)
    assert "--role roles/run.invoker" in error


def test_a_caller_outside_of_the_networks_of_an_internal_service_is_told_so(
    command: Command, on_internal_cloud_run: tuple[str, ...], model: ModelServer
) -> None:
    model.faults[MODELS] = 404, b"<html><title>404 Page not found</title></html>"
    status, out, error = command("ask", *on_internal_cloud_run, "?")
    assert (status, out) == (2, "")
    assert "404; the service takes requests from the project's networks alone" in last_line(error)


def test_an_answer_of_the_server_itself_is_not_blamed_on_the_network(
    command: Command, on_internal_cloud_run: tuple[str, ...], model: ModelServer
) -> None:
    model.faults[MODELS] = 404, b'{"error": {"message": "no such model"}}'
    _status, _out, error = command("ask", *on_internal_cloud_run, "?")
    assert "the server refuses it: 404 no such model" in last_line(error)


def test_a_service_without_a_ready_revision_says_why(
    command: Command, on_cloud_run: tuple[str, ...], model: ModelServer, google: GoogleServer
) -> None:
    model.faults[MODELS] = 503, b"Service Unavailable"
    condition = {"type": "Ready", "state": "CONDITION_FAILED", "message": "The container failed to start."}
    google.plant("run.v2", "run.projects.locations.services.get", {"terminalCondition": condition})
    status, out, error = command("ask", *on_cloud_run, "?")
    assert (status, out) == (2, "")
    assert "is not ready: " in last_line(error)


# Any server


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            (429, b"Rate exceeded."),
            "busy (429 Rate exceeded.); ask again, or let more servers run",
        ),
        ((503, b'{"error": {"message": "overloaded"}}'), "the server is busy (503 overloaded); ask again"),
        ((401, b""), "401; your identity token is not accepted; gcloud auth application-default login"),
        (
            (400, b'{"error": {"message": "the prompt is\\ntoo long"}}'),
            ": 400 the prompt is too long",
        ),
        ((500, b'{"error": "no"}'), "the server failed: 500 no"),
        ((302, b""), "the server refuses it: 302"),
    ],
)
def test_an_error_of_the_server_is_one_line(
    fault: tuple[int, bytes],
    message: str,
    command: Command,
    on_cloud_run: tuple[str, ...],
    model: ModelServer,
    google: GoogleServer,
) -> None:
    google.fail_all(REFUSED)
    model.faults[CHAT] = fault
    status, out, error = command("ask", *on_cloud_run, "?")
    assert (status, out) == (2, "")
    assert message in last_line(error)


def test_an_adapter_is_asked_before_its_base_unless_a_model_is_named(
    command: Command, on_gke: tuple[str, ...], model: ModelServer
) -> None:
    model.models = {"base": None, "tuned": "base"}
    asked = []
    for words in ((), ("--model", "base")):
        assert command("ask", *on_gke, *words, "?").status == 0
        asked.append(model.question["model"])
    assert asked == ["tuned", "base"]
    status, _, error = command("ask", *on_gke, "--model", "other", "?")
    assert status == 2
    assert last_line(error) == "operations ask: the server has no model other; it has base, tuned"


def test_what_is_no_server_of_a_model_is_said(
    command: Command, on_gke: tuple[str, ...], model: ModelServer
) -> None:
    model.faults[MODELS] = 200, b"<html>Sign in</html>"
    status, _, error = command("ask", *on_gke, "?")
    assert status == 2
    assert last_line(error).endswith(
        "answers, but does not list models as vLLM does; look at what runs there"
    )


SQL = {"system": "Write SQL.", "prompt": "{schema}\n{question}"}


def neutral_with(neutral: PastStack, form: dict[str, Any]) -> State:
    """The state of neutral with another form of questions."""
    alive = neutral.alive
    return replace(alive, outputs={**alive.outputs, "questionForm": json.dumps(form)})


@pytest.fixture
def sql(state: Callable[[State], None], neutral: PastStack, on_gke: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments that choose neutral, which here serves a model that was trained on two fields."""
    state(neutral_with(neutral, SQL))
    return on_gke


def test_other_fields_of_the_prompt_are_options(
    command: Command, sql: tuple[str, ...], model: ModelServer
) -> None:
    assert command("ask", *sql, "--field", "schema=CREATE TABLE a (b INT)", "How many?").status == 0
    assert model.question["messages"] == [
        {"role": "system", "content": "Write SQL."},
        {"role": "user", "content": "CREATE TABLE a (b INT)\nHow many?"},
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "prompts with schema and question, and PROMPT is one of them: give --field schema=TEXT"),
        (("--field", "schema=a", "--field", "question=b"), "give one --field less"),
        (("--field", "table=a"), "--field table: the model was trained without such a field; its prompt has"),
        (("--field", "schema"), "--field schema: write NAME=TEXT"),
    ],
)
def test_fields_that_do_not_fit_the_prompt_are_said(
    fields: tuple[str, ...], message: str, command: Command, sql: tuple[str, ...], model: ModelServer
) -> None:
    status, out, error = command("ask", *sql, *fields, "?")
    assert (status, out) == (2, "")
    assert message in last_line(error)
    assert not model.asked


# Plain texts


@pytest.fixture
def texts(state: Callable[[State], None], neutral: PastStack, on_gke: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments that choose neutral, which here serves a model that was trained on plain texts."""
    state(neutral_with(neutral, {"texts": True}))
    return on_gke


@pytest.mark.parametrize("option", [(), ("--as-is",)])
def test_a_model_of_plain_texts_continues_a_text(
    option: tuple[str, ...], command: Command, texts: tuple[str, ...], model: ModelServer
) -> None:
    model.ending = "length"
    assert command("ask", *texts, *option, "Bananas are {yellow}") == (0, ANSWER, "")
    assert model.asked[-1].path == TEXT
    assert model.question == {
        "model": "a-model",
        "prompt": "Bananas are {yellow}",
        "max_tokens": 256,
        "temperature": 0,
        "stream": True,
    }


def test_a_continuation_that_breaks_off_is_said(
    command: Command, texts: tuple[str, ...], model: ModelServer
) -> None:
    model.ending = "abort"
    status, _, error = command("ask", *texts, "Bananas are")
    assert status == 2 and "broke the answer off" in last_line(error)


# Stacks


def test_a_stack_that_serves_nothing_is_said(
    command: Command, state: Callable[[State], None], neutral: PastStack
) -> None:
    servers = [*neutral.alive.of_type("kubernetes:apps/v1:Deployment")]
    others = (resource for resource in neutral.alive.resources if resource not in servers)
    state(replace(neutral.alive, resources=tuple(others)))
    status, out, error = command("ask", "--stack", "neutral", "?")
    assert (status, out) == (2, "")
    assert last_line(error).startswith("operations ask: nothing of stack neutral serves a model; docs")


def test_a_stack_that_is_down_is_said(command: Command, state: Callable[[State], None]) -> None:
    state(State())
    status, out, error = command("ask", "--stack", "neutral", "?")
    assert (status, out) == (2, "")
    assert last_line(error) == (
        "operations ask: stack neutral has no resources; create them with `pulumi up --stack neutral`"
    )


def test_a_stack_that_does_not_exist_is_said(
    command: Command, neutral: PastStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend_up}")
    status, out, error = command("ask", "--stack", "nobodys", "?")
    assert (status, out) == (2, "")
    assert "nobodys" in last_line(error)
