"""`python -m operations verify`, as it is typed, against a server of models and a bucket on loopback."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cloud.services.cloudrun import SERVICE
from operations.serving.server import ServedModel, server_of
from operations.state import Resource, State
from rehearsal.stand_ins.bucket import Buckets
from tests.operations.conftest import Command
from tests.operations.google_buckets import GoogleBuckets
from tests.operations.past_stack import PastStack
from tests.operations.serving.model_server import CHAT, MODELS, TEXT, ModelServer

RUN = "a-bucket/emoji-0a1b2c3d"
PROMPT, REPLY = [2, 7, 8], [9, 10]
ROW = {
    "messages": [{"role": "user", "content": "a banana"}],
    "tools": None,
    "prompt": PROMPT,
    "reply": REPLY,
    "logprobs": [-0.5, -0.25],
}
KEPT = {"base": "google/gemma-3-1b-it", "has_date": False, "rows": [ROW]}


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    (tmp_path / RUN).mkdir(parents=True)
    with GoogleBuckets(tmp_path) as buckets:
        keep(buckets, KEPT)
        yield buckets


def keep(buckets: Buckets, check: Any) -> None:
    (buckets.folder / RUN / "check.json").write_text(json.dumps(check))


def service(address: str, *words: str, folders: Sequence[str] = (RUN,)) -> State:
    """The state of a stack whose service starts vLLM with these words, and mounts the folders of runs."""
    volumes = []
    for folder in folders:
        bucket, _, run = folder.partition("/")
        volumes.append({"gcs": {"bucket": bucket, "mountOptions": [f"only-dir={run}", "implicit-dirs"]}})
    container = {"commands": ["vllm", "serve", *words]}
    inputs = {"template": {"containers": [container], "volumes": volumes}}
    name = "projects/a-project/locations/us-central1/services/serving"
    outputs = {"uri": address, "project": "a-project"}
    return State(resources=(Resource(type=SERVICE.type, id=name, inputs=inputs, outputs=outputs),))


@pytest.fixture
def good(model: ModelServer) -> ModelServer:
    """A server of a merged model that gives what the run has kept."""
    model.models = {"emoji": None}
    model.prompt = PROMPT
    model.logprob = lambda _model, token: {9: -0.503, 10: -0.25}.get(token, -3.0)
    return model


@pytest.fixture
def merged(state: Callable[[State], None], good: ModelServer, buckets: Buckets) -> tuple[str, ...]:
    """The arguments that choose a stack with a merged model."""
    state(service(good.address, "/run-of-the-job/model", "--served-model-name", "emoji"))
    return ("--stack", "mine", "--endpoint", buckets.address)


@pytest.fixture
def adapter(state: Callable[[State], None], good: ModelServer, buckets: Buckets) -> tuple[str, ...]:
    """The arguments that choose a stack with an adapter on its base, which gives other probabilities."""
    words = ("gs://a-bucket/weights/gemma/model", "--served-model-name=gemma", "--enable-lora")
    state(service(good.address, *words, "--lora-modules=emoji=/run-of-the-job/adapter"))
    good.models = {"gemma": None, "emoji": "gemma"}
    good.root = "/run-of-the-job/adapter"
    of_adapter = good.logprob
    good.logprob = lambda name, token: of_adapter(name, token) - (name == "gemma")
    return ("--stack", "mine", "--endpoint", buckets.address)


def steps_of(command: Command, *words: str) -> tuple[int, dict[str, tuple[str, str, str]]]:
    """Exit status, and level, text and remedy by the step."""
    status, out, error = command("verify", *words, "--json")
    assert error == ""
    findings = json.loads(out)["findings"]
    return status, {item["topic"]: (item["level"], item["what"], item["remedy"]) for item in findings}


def test_a_merged_model_that_gives_what_is_kept_is_the_same(
    command: Command, merged: tuple[str, ...], good: ModelServer
) -> None:
    status, steps = steps_of(command, *merged)
    assert status == 0
    assert {step: level for step, (level, *_) in steps.items()} == {
        "listed": "ok",
        "same": "ok",
        "prompt": "ok",
    }
    assert "they differ by 0.002 nats a token, at most 0.003" in steps["same"][1]
    asked = {request.path: request.body for request in good.asked}
    assert asked[TEXT] == {
        "model": "emoji",
        "prompt": [*PROMPT, *REPLY],
        "max_tokens": 1,
        "temperature": 0,
        "prompt_logprobs": 0,
    }
    assert asked[CHAT]["messages"] == ROW["messages"]


def test_an_adapter_with_an_effect_is_the_same(command: Command, adapter: tuple[str, ...]) -> None:
    status, steps = steps_of(command, *adapter)
    assert status == 0
    assert [*steps] == ["listed", "adapter", "same", "prompt"]


def test_an_adapter_without_an_effect_is_told(
    command: Command, adapter: tuple[str, ...], good: ModelServer
) -> None:
    good.logprob = lambda _model, _token: -1.0
    status, steps = steps_of(command, *adapter)
    assert status == 1
    level, what, remedy = steps["adapter"]
    assert level == "problem"
    assert "has the adapter emoji and does not use it" in what
    assert "of its base gemma, to the last digit" in what
    assert "training.result" in remedy
    assert "same" not in steps


def test_an_adapter_without_an_effect_is_told_of_a_run_without_a_check(
    command: Command, adapter: tuple[str, ...], good: ModelServer, buckets: Buckets
) -> None:
    (buckets.folder / RUN / "check.json").unlink()
    good.logprob = lambda _model, _token: -1.0
    assert steps_of(command, *adapter)[0] == 1


@pytest.mark.parametrize(
    ("logprobs", "figures"),
    [
        ((-0.5, -0.36), "0.055 nats a token, at most 0.110"),
        ((-4.5, -0.25), "2.000 nats a token, at most 4.000"),
    ],
)
def test_another_run_or_revision_is_told(
    command: Command,
    merged: tuple[str, ...],
    good: ModelServer,
    logprobs: tuple[float, float],
    figures: str,
) -> None:
    good.logprob = lambda _model, token: dict(zip(REPLY, logprobs, strict=True)).get(token, -3.0)
    status, steps = steps_of(command, *merged)
    level, what, remedy = steps["same"]
    assert (status, level) == (1, "problem")
    assert what.startswith(f"emoji is another model than gs://{RUN} has published: they differ by {figures}")
    assert "another revision of its base" in remedy


def test_one_token_far_away_is_told_where_the_mean_is_near(
    command: Command, merged: tuple[str, ...], good: ModelServer, buckets: Buckets
) -> None:
    reply = [*range(9, 9 + 20)]
    keep(buckets, KEPT | {"rows": [ROW | {"reply": reply, "logprobs": [-0.5] * 20}]})
    good.logprob = lambda _model, token: -1.2 if token == 9 else -0.5
    status, steps = steps_of(command, *merged)
    assert status == 1
    assert "0.035 nats a token, at most 0.700" in steps["same"][1]


@pytest.mark.parametrize("change", ["name", "folder"])
def test_a_server_that_lists_another_model_is_told(
    command: Command, merged: tuple[str, ...], good: ModelServer, change: str
) -> None:
    if change == "name":
        good.models = {"sql": None}
    else:
        good.root = "/somewhere/else"
    status, steps = steps_of(command, *merged)
    assert status == 1
    assert [*steps] == ["listed"]
    assert "another run is served" in steps["listed"][1]


def test_another_chat_template_is_told(command: Command, merged: tuple[str, ...], good: ModelServer) -> None:
    good.prompt = [2, 7, 7, 8]
    status, steps = steps_of(command, *merged)
    assert status == 1
    assert "4 tokens in place of 3, the same up to token 2" in steps["prompt"][1]


def test_a_prompt_with_a_date_is_not_compared(
    command: Command, merged: tuple[str, ...], good: ModelServer, buckets: Buckets
) -> None:
    keep(buckets, KEPT | {"has_date": True})
    good.prompt = [2]
    assert steps_of(command, *merged)[0] == 0


def test_a_plain_text_has_no_conversation_to_compare(
    command: Command, merged: tuple[str, ...], good: ModelServer, buckets: Buckets
) -> None:
    keep(buckets, KEPT | {"rows": [ROW | {"messages": []}]})
    status, steps = steps_of(command, *merged)
    assert (status, [*steps]) == (0, ["listed", "same"])
    assert CHAT not in {request.path for request in good.asked}


def test_a_run_without_a_check_is_not_asked(
    command: Command, merged: tuple[str, ...], buckets: Buckets
) -> None:
    (buckets.folder / RUN / "check.json").unlink()
    status, steps = steps_of(command, *merged)
    assert status == 2
    level, what, _ = steps["same"]
    assert level == "not checked"
    assert what.startswith(f"not asked: run gs://{RUN} has kept no check.json")


def test_a_model_of_the_hub_is_not_asked(
    command: Command, merged: tuple[str, ...], state: Callable[[State], None], good: ModelServer
) -> None:
    state(service(good.address, "google/gemma-3-12b-it", folders=()))
    status, _, error = command("verify", *merged)
    assert status == 2
    assert "not asked: stack mine serves a model of the Hub" in error
    assert good.asked == []


@pytest.mark.parametrize("check", [[], {"rows": 3}, KEPT | {"rows": [ROW | {"logprobs": []}]}])
def test_a_check_that_is_none_is_one_line(
    command: Command, merged: tuple[str, ...], buckets: Buckets, check: Any
) -> None:
    keep(buckets, check)
    status, _, error = command("verify", *merged)
    assert status == 2
    assert f"gs://{RUN}/check.json is no check of a run" in error


@pytest.mark.parametrize("path", [MODELS, TEXT, CHAT])
@pytest.mark.parametrize("content", [b"[]", b"<html>", b'{"data": [{}], "choices": [{}]}'])
def test_an_answer_of_another_server_is_one_line(
    command: Command, merged: tuple[str, ...], good: ModelServer, path: str, content: bytes
) -> None:
    good.faults[path] = (200, content)
    status, _, error = command("verify", *merged)
    assert status == 2
    assert "answers, but not as vLLM does" in error


def test_the_table_names_stack_and_run(command: Command, merged: tuple[str, ...]) -> None:
    status, out, _ = command("verify", *merged)
    assert status == 0
    assert f"verify of mine, which serves gs://{RUN}" in out
    assert "3 ok" in out


def test_the_run_is_the_one_that_a_server_mounts(neutral: PastStack, neutral_run: PastStack) -> None:
    assert [model.run for model in server_of(neutral.alive, "neutral").models] == [""]
    (model,) = server_of(neutral_run.alive, "neutral-run").models
    assert (model.path, model.run) == ("/run-of-the-job", "neutral-run-0a1b2c3d")


def test_each_of_several_adapters_is_compared_with_its_own_run(
    command: Command, state: Callable[[State], None], good: ModelServer, buckets: Buckets
) -> None:
    two = "a-bucket/sql-4567cdef"
    (buckets.folder / two).mkdir()
    (buckets.folder / two / "check.json").write_text(json.dumps(KEPT))
    words = ("gs://a-bucket/weights/gemma/model", "--served-model-name=gemma", "--enable-lora")
    modules = ("--lora-modules", "emoji=/run-of-the-job/adapter", "sql=/run-of-the-job/adapter")
    state(service(good.address, *words, *modules, "--max-loras=2", folders=(RUN, two)))
    good.models, good.root = {"gemma": None, "emoji": "gemma", "sql": "gemma"}, "/run-of-the-job/adapter"
    trained = good.logprob
    good.logprob = lambda name, token: trained(name, token) - {"gemma": 1, "sql": 2}.get(name, 0)
    status, out, _ = command("verify", "--stack", "mine", "--endpoint", buckets.address, "--json")
    findings = [(item["topic"], item["level"], item["what"]) for item in json.loads(out)["findings"]]
    same = [(level, what.partition(": they")[0]) for topic, level, what in findings if topic == "same"]
    assert same == [
        ("ok", "emoji gives what the run has kept"),
        ("problem", f"sql is another model than gs://{two} has published"),
    ]
    assert status == 1


def test_the_run_is_found_in_a_pod(state: Callable[[State], None]) -> None:
    attributes = {
        "bucketName": "a-bucket",
        "mountOptions": "implicit-dirs,uid=1000,only-dir=runs/sql-0a1b2c3d",
    }
    pod = {
        "containers": [
            {
                "command": ["vllm", "serve"],
                "args": ["gs://a-bucket/weights/b/model", "--lora-modules=sql=/run-of-the-job/adapter"],
            }
        ],
        "volumes": [{"emptyDir": {}}, {"csi": {"volumeAttributes": attributes}}],
    }
    deployment = Resource(
        type="kubernetes:apps/v1:Deployment",
        id="llm/serving",
        inputs={"spec": {"template": {"spec": pod}}},
        outputs={},
    )
    cluster = Resource(type="gcp:container/cluster:Cluster", id="c", outputs={"project": "p"})
    (served,) = server_of(State(resources=(cluster, deployment)), "mine").models
    assert served == ServedModel(
        name="sql", path="/run-of-the-job/adapter", bucket="a-bucket", run="runs/sql-0a1b2c3d"
    )
