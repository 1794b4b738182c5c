"""A finished run that is served: by the stack `serve`, by the stack that trained it, or not any more."""

import json
import shutil
from typing import Any

import pytest

from operations.serving.chat import Form
from rehearsal.errors import RehearsalError
from rehearsal.fakes.finished_run import write_run
from rehearsal.session import Rehearsal
from stacks.serving.vllm import Vllm
from tests import plans
from tests.stacks.configuration import problems
from tests.stacks.served_runs import arguments, mounted, run_in, server

FOLDER = "rehearsal-runs/gemma-3-4b-sql-0a1b2c3d"
NEWER = "rehearsal-runs/gemma-3-4b-sql-99999999"
SERVE: dict[str, str | None] = {
    "llm-stacks:scenario": "serve",
    "llm-stacks:imageUri": None,
    "llm-stacks:hfToken": None,
    "llm-stacks:servedRun": f"gs://{FOLDER}",
}


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (lambda run: shutil.rmtree(run), "there is no run"),
        (lambda run: (run / "COMPLETE.json").unlink(), "is not finished"),
        (lambda run: write_run(run, not_good="accuracy 0.1 is below 0.5"), "is not good, accuracy 0.1"),
        (lambda run: write_run(run, gigabytes=24.4), "24.4 GB of weights"),
        (lambda run: write_run(run, config={"max_position_embeddings": 1024}), "has 1024 positions"),
    ],
    ids=["missing", "unfinished", "not good", "too large", "too short"],
)
def test_a_run_that_must_not_be_served_fails_before_anything_is_created(fault: Any, reason: str) -> None:
    with Rehearsal("serve", {"vllmArguments": '["--max-model-len=2048"]'}) as rehearsal:
        fault(run_in(rehearsal, FOLDER))
        # A preview needs no account, so it does not look.
        rehearsal.preview()
        with pytest.raises(RehearsalError, match=reason):
            rehearsal.up()
        assert rehearsal.cloud.items == []


def test_a_newer_run_takes_over_without_a_gap_and_under_the_same_name() -> None:
    own_arguments = {"vllmArguments": '["--max-model-len=2048"]'}
    with Rehearsal("serve", own_arguments) as rehearsal:
        rehearsal.up()
        before = arguments(rehearsal)
        assert mounted(rehearsal) == FOLDER and before[-1] == "--max-model-len=2048"
        write_run(run_in(rehearsal, NEWER))
        rehearsal.configure({**own_arguments, "servedRun": f"gs://{NEWER}"})
        rehearsal.up()
        assert mounted(rehearsal) == NEWER and arguments(rehearsal) == before
        assert "--served-model-name=gemma-3-4b-sql" in before
        # A single server stays until the new one answers: 50 % of one server is none.
        assert server(rehearsal)["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": "50%"}
        assert rehearsal.preview().changed == 0


def test_a_server_takes_as_many_tokens_as_its_model() -> None:
    with Rehearsal("serve") as rehearsal:
        write_run(run_in(rehearsal, FOLDER), config={"max_position_embeddings": 4096})
        rehearsal.up()
        assert "--max-model-len=4096" in arguments(rehearsal)
        write_run(run_in(rehearsal, NEWER), config={"max_position_embeddings": 32768})
        rehearsal.configure({"servedRun": f"gs://{NEWER}"})
        rehearsal.up()
        assert "--max-model-len=8192" in arguments(rehearsal)


AS_TEXT = "--chat-template-content-format=string"


def test_the_chat_template_gets_texts_as_in_the_training_unless_rows_have_pictures() -> None:
    with Rehearsal("serve") as rehearsal:
        rehearsal.up()
        assert AS_TEXT in arguments(rehearsal)
        newer = run_in(rehearsal, NEWER)
        write_run(newer)
        record = json.loads((newer / "run.json").read_text())
        record["recipe"]["data"]["image"] = "picture"
        (newer / "run.json").write_text(json.dumps(record))
        rehearsal.configure({"servedRun": f"gs://{NEWER}"})
        rehearsal.up()
        assert AS_TEXT not in arguments(rehearsal)


@pytest.mark.parametrize(
    ("words", "length"),
    [
        ((), 0),
        (("--max-model-len=16384",), 16384),
        (("--max-model-len", "4096"), 4096),
        (("--max_model_len=16k",), 16000),
        (("--max-model-len=1.5K",), 1536),
        (("--max-model-len=4096", "--max-model-len=2048"), 2048),
        (("--max-model-len=auto",), 0),
        (("--max-model-len=-1",), 0),
        (("--max-model-len=65536", '--hf-overrides={"rope_scaling": {}}'), 0),
    ],
)
def test_the_users_length_is_read_as_vllm_reads_it(words: tuple[str, ...], length: int) -> None:
    assert Vllm.model_validate({"vllmArguments": words}).users_length == length


def test_the_model_is_asked_in_the_form_of_the_rows_that_its_run_was_trained_on() -> None:
    with Rehearsal("serve") as rehearsal:
        rehearsal.up()
        outputs = plans.outputs(rehearsal)
        assert Form.read(outputs) == Form(system="Answer with a query.", prompt="{schema}\n{question}")
        assert "--field=schema=SCHEMA" in outputs["ask"] and "--field=question" not in outputs["ask"]


EMOJI = "rehearsal-runs/gemma-3-1b-emoji-4567cdef"


def test_adapters_of_several_runs_are_on_the_same_servers_each_under_its_name() -> None:
    with Rehearsal("serve", {"moreRuns": f'["gs://{EMOJI}"]'}) as rehearsal:
        rehearsal.up()
        words = arguments(rehearsal)
        start = words.index("--lora-modules")
        assert words[start + 1 : start + 3] == [
            "gemma-3-4b-sql=/run-of-the-job/adapter",
            "gemma-3-1b-emoji=/run-of-the-job-2/adapter",
        ]
        pod = server(rehearsal)["template"]["spec"]
        places = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        folders = {
            places[volume["name"]]: volume["csi"]["volumeAttributes"]["mountOptions"].rpartition("=")[2]
            for volume in pod["volumes"]
            if "csi" in volume
        }
        assert folders == {
            "/run-of-the-job": FOLDER.partition("/")[2],
            "/run-of-the-job-2": EMOJI.partition("/")[2],
        }
        outputs = plans.outputs(rehearsal)
        expected = Form(system="Answer with a query.", prompt="{schema}\n{question}")
        assert Form.read(outputs, "gemma-3-1b-emoji") == expected == Form.read(outputs)
        assert rehearsal.preview().changed == 0
        # Without the run in the list, the servers have the first one alone, and nobody waits for a gap.
        rehearsal.configure({})
        rehearsal.up()
        assert "--max-loras=2" not in arguments(rehearsal)
        assert server(rehearsal)["strategy"]["rollingUpdate"]["maxSurge"] == 1


def test_a_run_that_cannot_share_the_servers_changes_none() -> None:
    with Rehearsal("serve") as rehearsal:
        rehearsal.up()
        before = arguments(rehearsal)
        write_run(run_in(rehearsal, EMOJI))
        rehearsal.configure({"moreRuns": f'["gs://{EMOJI}"]'})
        with pytest.raises(RehearsalError, match="has a merged model, and a server has several"):
            rehearsal.up()
        assert arguments(rehearsal) == before


def test_an_update_to_an_unfinished_run_fails_and_changes_no_server() -> None:
    with Rehearsal("serve") as rehearsal:
        rehearsal.up()
        rehearsal.configure({"servedRun": f"gs://{NEWER}"})
        with pytest.raises(RehearsalError, match="there is no run"):
            rehearsal.up()
        assert mounted(rehearsal) == FOLDER


@pytest.mark.parametrize(
    ("stack", "settings"),
    [("a4-ray", {}), ("a4-accelerate", {}), ("tpu-maxtext", {"recipe": "llama31-8b-continued"})],
)
def test_a_stack_that_trains_prints_the_command_that_serves_its_run(
    stack: str, settings: dict[str, str]
) -> None:
    with Rehearsal(stack, {"imageUri": plans.IMAGE, **settings}) as rehearsal:
        rehearsal.up()
        outputs = plans.outputs(rehearsal)
        (bucket,) = [item.id for item in rehearsal.cloud.of_type("gcp:storage/bucket:Bucket")]
    address = f"gs://{bucket}/{outputs['run']}"
    assert f"config set --stack serve servedRun {address} && " in outputs["serveRun"]
    with Rehearsal("serve", {"servedRun": address}) as serving:
        serving.up()


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("gpus", "3", "no machine has 3 L4; choose one of 1, 2, 4, 8"),
        ("region", "us-east5", "us-east5 has no zone with L4 GPUs"),
        ("servedRun", "gs://only-a-bucket", "gs://BUCKET/FOLDER"),
        ("servedRun", "my-run", "gs://BUCKET/FOLDER"),
        ("moreRuns", '["my-run"]', "gs://BUCKET/OTHER_RUN"),
        (
            "moreRuns",
            '["gs://elsewhere/emoji-4567cdef"]',
            "is not in the bucket of servedRun, gs://rehearsal",
        ),
        ("moreRuns", f'["gs://{NEWER}"]', "two runs would answer to the name gemma-3-4b-sql"),
        ("moreRuns", f'["gs://{FOLDER}"]', "two runs would answer to the name gemma-3-4b-sql"),
        ("moreRuns", str([f"gs://rehearsal-runs/r{n}" for n in range(8)]).replace("'", '"'), "at most 7"),
    ],
)
def test_bad_input_is_refused_with_what_to_choose(key: str, value: str, reason: str) -> None:
    full_key = f"{'gcp' if key == 'region' else 'llm-stacks'}:{key}"
    (problem,) = problems({**SERVE, full_key: value})
    assert reason in problem
