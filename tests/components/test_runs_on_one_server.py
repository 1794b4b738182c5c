"""Which runs the same servers may have, by their files in a bucket."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.finished_run.limits import adapter_gb
from rehearsal.fakes.finished_run import write_adapter, write_run
from rehearsal.stand_ins.bucket import Buckets
from tests.components.runs_in_a_bucket import RUN, configure, look, publish_adapter, refusal

OTHER = "mine/sql-4567cdef"


@pytest.fixture
def neighbour(buckets: Buckets, run: Path) -> Path:
    """Another finished run beside the first. Both are adapters of one base."""
    publish_adapter(run)
    folder = buckets.folder / "runs" / OTHER
    write_adapter(folder)
    return folder


def change_record(run: Path, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads((run / "run.json").read_text())
    change(record)
    (run / "run.json").write_text(json.dumps(record))


def test_an_adapter_of_the_same_base_is_served_beside_another(buckets: Buckets, neighbour: Path) -> None:
    beside = look(buckets, run=OTHER, beside=RUN, adapters=2)
    alone = look(buckets)
    assert (beside["folder"], beside["base_folder"]) == (OTHER, alone["base_folder"])


def copy_base(run: Path, commit: str) -> None:
    """Copies the base model of a run to another commit, and makes it the run's."""
    weights = run.parent / "weights/google/gemma-3-4b-it"
    shutil.copytree(weights / ("0" * 40), weights / commit)
    change_record(run, lambda record: record["commits"].update(model=commit))


def give_template(run: Path, text: str) -> None:
    (run / "adapter/chat_template.jinja").write_text(text)
    sizes = {file.name: file.stat().st_size for file in (run / "adapter").iterdir()}
    (run / "COMPLETE.json").write_text(json.dumps({"adapter": sizes, "own_template": True}))


# What keeps two runs from the same servers, and what the refusal says.
NEIGHBOURS: dict[str, tuple[Callable[[Path, Path], object], str]] = {
    "the other is merged": (
        lambda _run, other: write_run(other),
        f"run gs://runs/{OTHER} has a merged model, and a server has several runs only as adapters",
    ),
    "the first is merged": (
        lambda run, _other: write_run(run),
        f"run gs://runs/{RUN} has a merged model",
    ),
    "another commit": (
        lambda _run, other: copy_base(other, "1" * 40),
        f"run gs://runs/{OTHER} needs the base model in mine/weights/google/gemma-3-4b-it/{'1' * 40}/model",
    ),
    "another template": (
        lambda run, other: (give_template(run, "{{ one }}"), give_template(other, "{{ two }}")),
        "has another chat template than run",
    ),
    "a template of its own": (
        lambda _run, other: give_template(other, "{{ two }}"),
        "has another chat template than run",
    ),
    "pictures": (
        lambda _run, other: change_record(
            other, lambda record: record["recipe"]["data"].update(image="picture")
        ),
        "only one has pictures",
    ),
}


@pytest.mark.parametrize(("change", "reason"), NEIGHBOURS.values(), ids=NEIGHBOURS)
def test_runs_that_cannot_share_a_server_are_refused(
    buckets: Buckets, run: Path, neighbour: Path, change: Callable[[Path, Path], object], reason: str
) -> None:
    change(run, neighbour)
    assert reason in refusal(buckets, run=OTHER, beside=RUN, adapters=2)


def test_the_same_template_of_two_runs_is_that_of_the_server(
    buckets: Buckets, run: Path, neighbour: Path
) -> None:
    for folder in (run, neighbour):
        give_template(folder, "{{ one }}")
    assert look(buckets, run=OTHER, beside=RUN, adapters=2)["template"] == "chat_template.jinja"


def test_what_is_wrong_with_the_first_run_its_own_look_up_says(
    buckets: Buckets, run: Path, neighbour: Path
) -> None:
    (run / "COMPLETE.json").unlink()
    assert look(buckets, run=OTHER, beside=RUN, adapters=2)["folder"] == OTHER
    assert "is not finished" in refusal(buckets)


# Sizes of Gemma 3 4B, and MiB of a place for an adapter by its rank: measured on vLLM 0.29.
GEMMA_3_4B = {
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 34,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
}


@pytest.mark.parametrize(("rank", "mebibytes"), [(8, 28), (16, 57), (12, 57), (32, 114), (64, 227)])
def test_a_place_for_an_adapter_is_as_large_as_vllm_makes_it(rank: int, mebibytes: int) -> None:
    for config in (GEMMA_3_4B, {"text_config": GEMMA_3_4B}):
        assert round(adapter_gb(config, rank) * 1e9 / 2**20) == mebibytes


def test_adapters_that_do_not_fit_beside_their_base_are_refused(
    buckets: Buckets, run: Path, neighbour: Path
) -> None:
    base = run.parent / "weights/google/gemma-3-4b-it" / ("0" * 40) / "model"
    configure(base, **GEMMA_3_4B)
    change_record(neighbour, lambda record: record["recipe"]["lora"].update(rank=512))
    assert look(buckets, run=OTHER, beside=RUN, adapters=5)["rank"] == 512
    text = refusal(buckets, run=OTHER, beside=RUN, adapters=7)
    assert "8.6 GB of weights and 13.4 GB for adapters beside them" in text and "moreRuns" in text
