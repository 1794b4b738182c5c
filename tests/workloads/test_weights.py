"""A model of the Hub is copied into a bucket once, whole, and as the Hub has it."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from conftest import Clock

from finetune.__main__ import main

if TYPE_CHECKING:
    from rehearsal.stand_ins.bucket import Buckets
    from rehearsal.stand_ins.hub import Hub

NAME = "team/chat"
COPY = ["copy", NAME, "gs://bucket/weights"]


@pytest.fixture
def repository(tiny: Path, tmp_path: Path, hub: "Hub") -> Path:
    """The files of the model on the Hub."""
    folder = shutil.copytree(tiny / "text-model", tmp_path / "repository")
    hub.model(NAME).push(folder)
    return folder


@pytest.fixture
def bucket(buckets: "Buckets") -> Path:
    """The folder of the copy."""
    return buckets.folder / "bucket/weights"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def downloads(hub: "Hub") -> list[str]:
    """The weights that were asked for, in their order."""
    return [path.rpartition("/")[2] for path in hub.requests if path.endswith(".safetensors")]


def split_weights(repository: Path) -> None:
    """Makes two files of the weights of the model."""
    weights = repository / "model.safetensors"
    shutil.copy(weights, repository / "model-00001-of-00002.safetensors")
    weights.rename(repository / "model-00002-of-00002.safetensors")


def test_a_second_start_asks_the_hub_for_nothing(repository: Path, bucket: Path, hub: "Hub") -> None:
    assert main(COPY) == 0
    assert contents(bucket / "model") == contents(repository)
    assert hub.requests
    hub.requests.clear()
    assert main(COPY) == 0
    assert hub.requests == []


def test_only_what_a_server_reads_is_copied(repository: Path, bucket: Path) -> None:
    """A server reads every safetensors file beside the configuration."""
    whole = contents(repository)
    for name in ("pytorch_model.bin", "consolidated.safetensors", "original/model.safetensors", "run.py"):
        (repository / name).parent.mkdir(exist_ok=True)
        (repository / name).write_bytes(b"the weights, a second time")
    assert main(COPY) == 0
    assert contents(bucket / "model") == whole


def test_a_copy_that_broke_off_goes_on_with_what_is_missing_at_its_commit(
    repository: Path, bucket: Path, hub: "Hub", tmp_path: Path, clock: Clock
) -> None:
    split_weights(repository)
    commit = hub.model(NAME).branches["main"]
    hub.refusal = lambda path: (503, {}) if "00002-of" in path else None
    assert main(COPY) == 1
    assert not (bucket / "COMPLETE.json").exists()
    other = shutil.copytree(repository, tmp_path / "other")
    (other / "config.json").write_text("{}")
    hub.model(NAME).push(other)
    hub.refusal = lambda _path: None
    hub.requests.clear()
    assert main(COPY) == 0
    assert downloads(hub) == ["model-00002-of-00002.safetensors"]
    assert contents(bucket / "model") == contents(repository)
    assert json.loads((bucket / "COMPLETE.json").read_text())["commit"] == commit


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_damaged_file_is_not_served(
    name: str, repository: Path, bucket: Path, hub: "Hub", capsys: pytest.CaptureFixture[str]
) -> None:
    """The Hub knows the hash of a large file and that of a small one."""
    hub.damaged = name
    assert main(COPY) == 1
    (error,) = capsys.readouterr().err.splitlines()
    assert error == f"error: {name} of {NAME} arrived damaged; the next start copies it again"
    assert not (bucket / "model" / name).exists()
    assert not (bucket / "COMPLETE.json").exists()
    hub.damaged = ""
    assert main(COPY) == 0
    assert contents(bucket / "model") == contents(repository)


def test_a_large_file_comes_in_pieces_and_a_lost_one_is_asked_for_again(
    repository: Path, bucket: Path, hub: "Hub", monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("finetune.results.weights.PIECE", 50_000)
    asked = 0

    def refuse(path: str) -> tuple[int, Mapping[str, str]] | None:
        nonlocal asked
        asked += path.endswith("model.safetensors")
        return (503, {}) if path.endswith("model.safetensors") and asked == 2 else None

    hub.refusal = refuse
    assert main(COPY) == 0
    size = (repository / "model.safetensors").stat().st_size
    assert size > 150_000
    assert len(downloads(hub)) == -(-size // 50_000) + 1
    assert len(clock.pauses) == 1
    assert contents(bucket / "model") == contents(repository)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            [*COPY, "--revision=v2"],
            f"model {NAME} has no revision v2: choose one of https://huggingface.co/{NAME}/commits/main",
        ),
        (
            ["copy", "team/none", "gs://bucket/weights"],
            "model team/none cannot be found, or the token in HF_TOKEN may not see it",
        ),
        (["copy", NAME, "gs://no-such-bucket/weights"], "storage gs://no-such-bucket/weights cannot be used"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_what_is_not_there_is_one_line(
    arguments: list[str], problem: str, bucket: Path, hub: "Hub", capsys: pytest.CaptureFixture[str]
) -> None:
    hub.tokens["hf_any"] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", "hf_any")
        assert main(arguments) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {problem}")
    assert not bucket.exists()


@pytest.mark.usefixtures("repository")
def test_a_licence_is_asked_for_before_anything_is_copied(
    bucket: Path, hub: "Hub", capsys: pytest.CaptureFixture[str]
) -> None:
    hub.model(NAME).gated = True
    assert main(COPY) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: model {NAME} is gated and no token (set HF_TOKEN) gives no access")
    assert downloads(hub) == []
    assert not bucket.exists()


def test_a_model_without_safetensors_is_one_line(
    repository: Path, bucket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "model.safetensors").rename(repository / "pytorch_model.bin")
    assert main(COPY) == 2
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: model {NAME} has no weights in safetensors")
    assert not bucket.exists()


def publishing(from_hub: list[str], result: str, run: str) -> list[str]:
    """The command of a run in the bucket."""
    return [*from_hub, "--storage=gs://bucket", f"--run={run}", f"--set=training.result={result}"]


def test_a_run_that_publishes_an_adapter_puts_its_base_where_a_server_looks_once(
    from_hub: list[str], tiny: Path, hub: "Hub", buckets: "Buckets", monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = (name for kind, name in hub.repositories if kind == "models")
    commit = hub.model(name).branches["main"]
    folder = f"weights/{name}/{commit}"
    assert main(publishing(from_hub, "adapter", "mine")) == 0
    base = buckets.folder / "bucket" / folder
    assert contents(base / "model") == contents(tiny / "text-model")
    assert json.loads((base / "COMPLETE.json").read_text())["commit"] == commit
    hub.requests.clear()
    assert main(["copy", name, f"gs://bucket/{folder}", f"--revision={commit}"]) == 0
    assert hub.requests == []
    # The next run finds it there.
    monkeypatch.setattr("finetune.results.weights.wanted", pytest.fail)
    assert main(publishing(from_hub, "adapter", "next")) == 0


def test_a_run_that_publishes_its_model_uploads_no_base(from_hub: list[str], buckets: "Buckets") -> None:
    assert main(publishing(from_hub, "model", "mine")) == 0
    assert (buckets.folder / "bucket/mine/model/config.json").exists()
    assert not (buckets.folder / "bucket/weights").exists()


def configure(repository: Path, **config: object) -> None:
    file = repository / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


@pytest.mark.parametrize(
    ("config", "options", "reason"),
    [
        (
            {"max_position_embeddings": 4096},
            ["--max-model-len=8192"],
            "has 4096 positions, and --max-model-len of its servers is 8192: write --max-model-len=4096",
        ),
        ({"max_position_embeddings": 8192}, ["--max-model-len=8192"], ""),
        (
            {"max_position_embeddings": 4096, "rope_parameters": {"rope_type": "linear", "factor": 4.0}},
            ["--max-model-len=8192"],
            "",
        ),
        ({"num_attention_heads": 9}, ["--gpus=2"], "has 9 attention heads, which the 2 GPUs"),
        ({"num_attention_heads": 8}, ["--gpus=2"], ""),
        ({"text_config": {"max_position_embeddings": 1024}}, ["--max-model-len=2048"], "has 1024 positions"),
    ],
)
def test_a_model_with_which_no_server_would_start_is_bad_input_before_its_weights_are_copied(
    config: dict[str, object],
    options: list[str],
    reason: str,
    tiny: Path,
    tmp_path: Path,
    hub: "Hub",
    bucket: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = shutil.copytree(tiny / "text-model", tmp_path / "repository")
    configure(folder, **config)
    hub.model(NAME).push(folder)
    assert main([*COPY, *options]) == (2 if reason else 0)
    assert reason in capsys.readouterr().err
    assert bool(downloads(hub)) == (not reason)


def test_servers_with_a_longer_length_are_refused_a_copy_that_is_there(
    repository: Path, bucket: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*COPY, "--max-model-len=512"]) == 0
    assert main([*COPY, "--max-model-len=1000000"]) == 2
    assert "--max-model-len of its servers is 1000000" in capsys.readouterr().err
