"""The engine's states of a stack, from every kind of backend."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from cloud.discovery import Call
from operations.errors import OperationError
from operations.google.clients import Clients
from operations.state import Backend, parse
from tests.operations.google_server import Fault, GoogleServer
from tests.operations.past_stack import PastStack


def deployment(*buckets: str) -> dict[str, Any]:
    stack = {"type": "pulumi:pulumi:Stack"}
    resources = [{"type": "gcp:storage/bucket:Bucket", "id": name} for name in buckets]
    return {"resources": [stack, *resources] if resources else []}


def exported(*buckets: str) -> str:
    return json.dumps({"deployment": deployment(*buckets)})


def checkpoint(*buckets: str) -> bytes:
    return json.dumps({"checkpoint": {"latest": deployment(*buckets)}}).encode()


Answers = dict[str, str]
Asked = Callable[[Answers], Backend]


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """A backend of an engine that answers what a test says, and nothing else."""

    def make(answers: Answers) -> Backend:
        class Engine:
            def output(self, words: list[str], *_: object) -> str:
                return answers[" ".join(words)]

            def parsed(self, words: list[str], *_: object) -> Any:
                return json.loads(answers[" ".join(words)])

        monkeypatch.setattr("operations.state.lookup.find", Engine)
        return Backend("s")

    return make


def named(states: list[Any]) -> list[list[str]]:
    return [[resource.physical_name for resource in state.resources] for state in states]


def test_the_history_goes_back_to_when_the_stack_was_last_empty(backend: Asked, clients: Clients) -> None:
    answers = {
        "stack history --json --stack s": json.dumps(
            [{"version": version} for version in (6, 5, 4, 3, 2, 1)]
        ),
        "stack export --version 6 --stack s": exported(),
        "stack export --version 5 --stack s": exported("b"),
        "stack export --version 4 --stack s": exported("a", "b"),
        "stack export --version 3 --stack s": exported(),
    }
    assert named(backend(answers).earlier(clients)) == [["b"], ["a", "b"]]


def in_bucket(url: str) -> Answers:
    # Without an API of its own a backend numbers every update zero.
    return {
        "stack history --json --stack s": json.dumps([{"version": 0}, {"version": 0}]),
        "whoami --json": json.dumps({"user": "me", "url": url}),
    }


@pytest.mark.parametrize(("url", "start"), [("gs://states", ""), ("gs://states/of/us?x=y", "of/us/")])
def test_the_history_of_a_bucket_is_read_from_it(
    url: str, start: str, backend: Asked, google: GoogleServer, clients: Clients
) -> None:
    folder = f"{start}.pulumi/history/llm-stacks/s/s-"
    files = {f"{folder}1.checkpoint.json": checkpoint("a"), f"{folder}2.checkpoint.json": checkpoint()}

    def listed(call: Call, _body: object) -> dict[str, Any]:
        assert (call.address["bucket"], call.query["prefix"]) == ("states", folder.removesuffix("s-"))
        return {"items": [{"name": name} for name in (*files, f"{folder}1.history.json")]}

    def read(call: Call, _body: object) -> None:
        raise Fault(body=files[call.address["object"]])

    google.plant("storage.v1", "storage.objects.list", listed)
    google.plant("storage.v1", "storage.objects.get", read)
    assert named(backend(in_bucket(url)).earlier(clients)) == [["a"]]


def test_a_backend_whose_history_cannot_be_read_is_said_with_the_way_out(
    backend: Asked, clients: Clients
) -> None:
    with pytest.raises(
        OperationError, match="s3://states cannot be read here; name a saved state with --state"
    ):
        backend(in_bucket("s3://states")).earlier(clients)


def test_the_history_of_a_folder_is_what_the_engine_wrote(
    neutral: PastStack, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend}")
    real = Backend("neutral")
    assert real.now().resources == ()
    # In the later one the bucket may be deleted.
    released, state = real.earlier(clients)
    assert state == neutral.alive
    assert {resource.name for resource in released.resources} == {
        resource.name for resource in state.resources
    }


def test_other_stacks_are_those_with_another_name_and_something_in_them(backend: Asked) -> None:
    stacks = [
        {"name": "s", "resourceCount": 3},
        {"name": "owner/llm-stacks/s", "resourceCount": 3},
        {"name": "beside", "resourceCount": 2},
        {"name": "empty", "resourceCount": 0},
    ]
    answers = {"stack ls --json": json.dumps(stacks), "stack export --stack beside": exported("c")}
    assert named([*backend(answers).others()]) == [["c"]]


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"deployment": {"resources": [{"id": 1}]}}', "{"])
def test_what_is_no_state_is_said(text: str) -> None:
    with pytest.raises(OperationError, match="mine is no exported state"):
        parse(text, "mine")
