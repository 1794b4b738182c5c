"""Whether a run is served: its files in a bucket, read from a server that follows Cloud Storage's API."""

import json
from pathlib import Path
from typing import Any

import pytest

from cloud.credentials import NO_SETTINGS
from components.base.once import OnceError, _message_or_traceback
from components.finished_run import FinishedRunProvider
from rehearsal.fakes.finished_run import write_run
from rehearsal.stand_ins.bucket import Buckets, Fault
from tests.components.runs_in_a_bucket import PROPS, RUN, configure, look, publish_adapter, refusal


def test_a_finished_run_is_served_by_its_merged_model(buckets: Buckets, run: Path) -> None:
    base = {"base": "", "base_folder": "", "rank": 0, "template": ""}
    served = {"folder": RUN, "kind": "model", **base, "length": 8192}
    asked = {
        "system": "Answer with a query.",
        "prompt": "{schema}\n{question}",
        "pictures": False,
        "texts": False,
    }
    assert look(buckets) == {**served, **asked}


def test_a_run_of_pictures_says_so(buckets: Buckets, run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["recipe"]["data"]["image"] = "picture"
    (run / "run.json").write_text(json.dumps(record))
    assert look(buckets)["pictures"] is True


def test_a_run_of_plain_texts_says_so(buckets: Buckets, run: Path) -> None:
    record = json.loads((run / "run.json").read_text())
    record["recipe"]["data"] = {"text": "article"}
    (run / "run.json").write_text(json.dumps(record))
    result = look(buckets)
    assert (result["texts"], result["system"], result["prompt"]) == (True, "", "")


def test_an_adapter_is_served_on_its_base_at_the_commit_that_it_was_trained_on(
    buckets: Buckets, run: Path
) -> None:
    publish_adapter(run)
    result = look(buckets)
    assert (result["kind"], result["base"]) == ("adapter", "google/gemma-3-4b-it")
    assert result["base_folder"] == f"mine/weights/google/gemma-3-4b-it/{'0' * 40}/model"
    assert (result["rank"], result["template"]) == (16, "")


def test_an_adapter_is_served_with_the_chat_template_that_it_was_trained_with(
    buckets: Buckets, run: Path
) -> None:
    publish_adapter(run)
    complete = json.loads((run / "COMPLETE.json").read_text())
    (run / "COMPLETE.json").write_text(json.dumps(complete | {"own_template": True}))
    assert look(buckets)["template"] == "chat_template.jinja"


def test_an_adapter_without_its_base_is_refused_with_the_command_that_copies_it(
    buckets: Buckets, run: Path
) -> None:
    publish_adapter(run)
    commit = "0" * 40
    copied = f"mine/weights/google/gemma-3-4b-it/{commit}"
    (buckets.folder / "runs" / copied / "COMPLETE.json").unlink()
    command = f"python -m finetune copy google/gemma-3-4b-it gs://runs/{copied} --revision {commit}"
    assert command in refusal(buckets)


def test_an_adapter_whose_base_does_not_fit_is_refused(buckets: Buckets, run: Path) -> None:
    publish_adapter(run, base_gb=24.4)
    assert f"the base model of run gs://runs/{RUN} has 24.4 GB of weights" in refusal(buckets)


def configure_model(run: Path, **config: Any) -> None:
    configure(run / "model", **config)
    sizes = {file.name: file.stat().st_size for file in (run / "model").iterdir()}
    (run / "COMPLETE.json").write_text(json.dumps({"model": sizes}))


@pytest.mark.parametrize(("positions", "length"), [(2048, 2048), (8192, 8192), (131072, 8192)])
def test_a_server_takes_as_many_tokens_as_the_model_has_positions_for(
    buckets: Buckets, run: Path, positions: int, length: int
) -> None:
    configure_model(run, max_position_embeddings=positions)
    assert look(buckets)["length"] == length


def test_a_users_length_above_the_positions_is_refused(buckets: Buckets, run: Path) -> None:
    configure_model(run, max_position_embeddings=2048)
    assert look(buckets, users_length=2048)["kind"] == "model"
    text = refusal(buckets, users_length=4096)
    assert "has 2048 positions, and --max-model-len of its servers is 4096" in text


def test_heads_that_the_gpus_do_not_divide_are_refused(buckets: Buckets, run: Path) -> None:
    configure_model(run, num_attention_heads=14, num_key_value_heads=2)
    assert look(buckets, gpus=2)["kind"] == "model"
    assert "14 attention heads" in refusal(buckets, gpus=4)


def test_length_and_heads_of_an_adapter_are_those_of_its_base(buckets: Buckets, run: Path) -> None:
    publish_adapter(run)
    base = run.parent / "weights/google/gemma-3-4b-it" / ("0" * 40) / "model"
    configure(base, max_position_embeddings=4096, num_attention_heads=14)
    assert look(buckets)["length"] == 4096
    assert "the base model of run" in refusal(buckets, gpus=4)


def test_an_adapter_that_vllm_does_not_load_is_refused(buckets: Buckets, run: Path) -> None:
    publish_adapter(run)
    (run / "adapter/adapter_config.json").write_text(json.dumps({"r": 16, "use_dora": True}))
    sizes = {file.name: file.stat().st_size for file in (run / "adapter").iterdir()}
    (run / "COMPLETE.json").write_text(json.dumps({"adapter": sizes}))
    assert "is a DoRA adapter, which vLLM does not load" in refusal(buckets)


def test_a_look_up_of_an_older_version_is_made_again(buckets: Buckets, run: Path) -> None:
    looker, asked = provider(buckets), {**PROPS, "keep": True}
    served = looker.create(asked).outs or {}
    older = {key: value for key, value in served.items() if key != "base_folder"}
    assert looker.diff("", older, asked).changes
    assert (looker.update("", older, asked).outs or {})["base_folder"] == ""
    (run / "COMPLETE.json").unlink()
    with pytest.raises(OnceError, match="is not finished"):
        looker.update("", older, asked)


def test_an_export_of_maxtext_is_served(buckets: Buckets, run: Path) -> None:
    (run / "model").rename(run / "hugging-face")
    (run / "COMPLETE.json").write_text(json.dumps({"steps": 30}))
    (run / "run.json").write_text(json.dumps({"recipe": {"maxtext": {"steps": 30}, "libtpu_flags": []}}))
    result = look(buckets)
    assert (result["kind"], result["system"], result["prompt"]) == ("hugging-face", "", "")
    assert result["texts"] is True


def test_a_run_that_does_not_exist_is_refused(buckets: Buckets) -> None:
    assert "there is no run" in refusal(buckets)
    assert "there is no run" in refusal(buckets, bucket="runs", run="no/such/run")


def test_a_new_stack_that_serves_its_own_run_is_told_how_to_train_it_first(buckets: Buckets) -> None:
    with pytest.raises(OnceError, match=r"`pulumi config set serve hub && pulumi up` trains it, and when"):
        provider(buckets).create({**PROPS, "keep": True})
    with pytest.raises(OnceError, match=r"^there is no run [^;]*$"):
        provider(buckets).create({**PROPS, "keep": False})


def test_a_run_without_its_marker_is_not_finished(buckets: Buckets, run: Path) -> None:
    (run / "COMPLETE.json").unlink()
    assert "is not finished" in refusal(buckets)


def test_a_run_that_is_not_good_is_served_only_when_the_user_says_so(buckets: Buckets, run: Path) -> None:
    write_run(run, not_good="accuracy 0.2 is below 0.5")
    assert "accuracy 0.2 is below 0.5: set serveNotGood" in refusal(buckets)
    assert look(buckets, serve_not_good=True)["kind"] == "model"


def test_the_words_of_a_run_are_cut_off(buckets: Buckets, run: Path) -> None:
    write_run(run, not_good="x" * 10**6)
    text = refusal(buckets)
    assert "is not good, xxx" in text and text.endswith(
        "set serveNotGood to true if it is to be served all the same"
    )
    assert len(text) < 1100


@pytest.mark.parametrize("folder", ["model", "adapter"])
def test_a_result_that_lacks_a_file_is_refused(buckets: Buckets, run: Path, folder: str) -> None:
    if folder == "adapter":
        publish_adapter(run)
    (run / folder / "left-over.json").write_text("{}")
    assert f"{RUN}/{folder} is not what the run has published" in refusal(buckets)


def test_a_run_without_an_export_says_how_to_get_one(buckets: Buckets, run: Path) -> None:
    (run / "COMPLETE.json").write_text(json.dumps({"steps": 30}))
    assert "has no model in hugging-face/" in refusal(buckets)


def test_a_model_that_does_not_fit_is_refused_with_both_sizes(buckets: Buckets, run: Path) -> None:
    write_run(run, gigabytes=24.4)
    assert "24.4 GB of weights, and the GPUs of a server have room for 19.6" in refusal(buckets)
    assert look(buckets, memory_gb=48)["kind"] == "model"


def test_an_adapter_of_a_quantized_model_is_refused_with_the_command_that_merges_it(
    buckets: Buckets, run: Path
) -> None:
    publish_adapter(run, quantization="nf4")
    assert f"python -m finetune merge gs://runs/{RUN} FOLDER" in refusal(buckets)


@pytest.mark.parametrize("status", [401, 403])
def test_a_bucket_that_may_not_be_read_is_named_with_the_role(
    buckets: Buckets, run: Path, status: int
) -> None:
    buckets.faults.append(Fault(status=status))
    assert "roles/storage.objectViewer" in refusal(buckets)


def test_a_short_outage_is_waited_for(buckets: Buckets, run: Path) -> None:
    buckets.faults.append(Fault(status=503, times=3))
    assert look(buckets)["kind"] == "model"


def provider(buckets: Buckets) -> FinishedRunProvider:
    (endpoint,) = buckets.configuration.values()
    looker = FinishedRunProvider()
    looker._endpoints, looker._credentials = {"storage": endpoint}, NO_SETTINGS
    return looker


def test_with_keep_the_run_before_stays_until_the_newer_one_is_finished(
    buckets: Buckets, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looker, asked = provider(buckets), {**PROPS, "keep": True}
    served = looker.create(asked).outs or {}
    newer = {**asked, "run": "mine/emoji-99999999"}
    assert looker.diff("", served, newer).changes
    kept = looker.update("", served, newer).outs or {}
    assert kept["folder"] == RUN
    assert capsys.readouterr().out.startswith(
        f"run {RUN} is still served: there is no run gs://runs/mine/emoji-9"
    )
    # The next `up` looks again.
    assert looker.diff("", kept, newer).changes
    write_run(buckets.folder / "runs/mine/emoji-99999999")
    taken = looker.update("", kept, newer).outs or {}
    assert taken["folder"] == "mine/emoji-99999999"
    assert not looker.diff("", taken, newer).changes


def test_a_server_with_fewer_gpus_is_checked_again(buckets: Buckets, run: Path) -> None:
    write_run(run, gigabytes=24.4)
    looker, asked = provider(buckets), {**PROPS, "keep": False, "memory_gb": 48}
    served = looker.create(asked).outs or {}
    smaller = {**asked, "memory_gb": 24}
    assert not looker.diff("", served, asked).changes
    assert looker.diff("", served, smaller).changes
    with pytest.raises(OnceError, match=r"24\.4 GB of weights"):
        looker.update("", served, smaller)


def test_without_keep_an_update_to_an_unfinished_run_fails(buckets: Buckets, run: Path) -> None:
    looker, asked = provider(buckets), {**PROPS, "keep": False}
    served = looker.create(asked).outs or {}
    with pytest.raises(OnceError, match="there is no run"):
        looker.update("", served, {**asked, "run": "mine/other"})


def test_escape_codes_of_a_run_are_visible_in_what_the_engine_prints(buckets: Buckets, run: Path) -> None:
    complete = json.loads((run / "COMPLETE.json").read_text())
    (run / "COMPLETE.json").write_text(json.dumps({**complete, "not_good": "\x1b[31mred\x07"}))
    try:
        look(buckets)
    except OnceError:
        text = _message_or_traceback()
    assert "\\x1b[31mred\\x07" in text
    assert text.isprintable()


ODD_NUMBER, NEST = "9" * 5000, "[" * 100_000
# Changes of a run's files by which nothing may be served, by file. An adapter has them too.
FORGED: dict[str, list[str]] = {
    "run.json": [
        *("[]", "1", '"x"', "null", NEST, "{"),
        '{"recipe": []}',
        '{"recipe": {"data": {"system": ["x"]}}}',
        '{"recipe": {"data": {"prompt": 1}}}',
        '{"recipe": {"data": "x"}}',
        '{"recipe": {"data": {"system": "\\ud800"}}}',
        f'{{"recipe": {{"data": {"[" * 400 + "]" * 400}}}}}',
    ],
    "COMPLETE.json": [
        '{"not_good": "two\\nlines"}',
        "[]",
        "1",
        NEST,
        '{"model": ["a"]}',
        '{"model": {"a": "1"}}',
        '{"model": "x"}',
    ],
    "model/config.json": [
        *("[]", NEST),
        '{"num_attention_heads": "x"}',
        '{"num_attention_heads": [8]}',
        f'{{"max_position_embeddings": {ODD_NUMBER}}}',
        '{"max_position_embeddings": -5}',
        '{"max_position_embeddings": 8, "rope_scaling": "x"}',
        '{"max_position_embeddings": 8, "rope_scaling": {"factor": "x", "type": "linear"}}',
        '{"max_position_embeddings": Infinity}',
    ],
}
FORGED_RECORDS: list[dict[str, Any]] = [
    {"recipe": {}},
    {"recipe": {"model": {"name": 5}, "lora": {"rank": 16}}},
    {"recipe": {"model": {"name": "../../other"}, "lora": {"rank": 16}}},
    {"recipe": {"model": {"name": "a/b; id"}, "lora": {"rank": 16}}},
    {"recipe": {"model": {"name": "a/$(id)"}, "lora": {"rank": 16}}},
    {"recipe": {"model": {"name": "a/b\n"}, "lora": {"rank": 16}}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": "x"}}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": 1e999}}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": -1}}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": 8}}, "commits": {"model": "../.."}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": 8}}, "commits": {"model": "`id`"}},
    {"recipe": {"model": {"name": "a/b", "revision": "--x"}, "lora": {"rank": 8}}},
    {"recipe": {"model": {"name": "a/b"}, "lora": {"rank": 8}}, "commits": ["x"]},
]


@pytest.mark.parametrize(
    ("file", "content"),
    [pytest.param(file, text, id=f"{file} {text[:60]}") for file, texts in FORGED.items() for text in texts],
)
def test_a_file_that_no_training_writes_is_refused_in_one_line(
    buckets: Buckets, run: Path, file: str, content: str
) -> None:
    (run / file).write_text(content)
    if file.startswith("model/"):
        sizes = {path.name: path.stat().st_size for path in (run / "model").iterdir()}
        (run / "COMPLETE.json").write_text(json.dumps({"model": sizes}))
    assert len(refusal(buckets)) < 400


@pytest.mark.parametrize("record", FORGED_RECORDS, ids=str)
def test_a_record_of_an_adapter_names_no_path_and_no_command(
    buckets: Buckets, run: Path, record: dict[str, Any]
) -> None:
    publish_adapter(run)
    (run / "run.json").write_text(json.dumps(record))
    text = refusal(buckets)
    assert "is not what a training writes" in text and not set("$`;") & set(text)
