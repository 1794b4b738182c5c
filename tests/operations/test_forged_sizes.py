"""Objects of any size, in a bucket or at the Hub, written by somebody else: no reader takes them whole."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

import cloud.client
from cloud.client import TooLargeError, client
from components.base.once import OnceError
from components.finished_run.lookup import result_of
from operations.checks import hub
from operations.checks.served_run import _Files
from operations.errors import OperationError
from operations.google.clients import Clients
from operations.report import record
from operations.serving.check import Check
from operations.serving.server import ServedModel
from operations.status import metrics
from operations.status.run_files import RunInBucket, RunInFolder
from rehearsal.fakes.finished_run import write_adapter
from rehearsal.stand_ins.answers import Answer
from tests.components.runs_in_a_bucket import PROPS, RUN, look
from tests.neutral_stacks import NEUTRAL
from tests.operations.good_project import GoodProject, file_of
from tests.operations.google_buckets import GoogleBuckets
from tests.operations.google_server import Page
from tests.operations.report.runs import run_folder

MOST = 2**20
BUCKET = str(PROPS["bucket"])
OUTPUTS = {"readMetrics": f"gcloud storage cat gs://{BUCKET}/{RUN}/metrics.jsonl"}


class Compressing(GoogleBuckets):
    """Serves objects as they are stored: those whose files are compressed with that mark."""

    def _object(self, method: str, bucket: str, name: str, query: dict[str, str]) -> Answer:
        status, content, headers = super()._object(method, bucket, name, query)
        marked = isinstance(content, bytes) and content.startswith(b"\x1f\x8b")
        return status, content, {**headers, "Content-Encoding": "gzip"} if marked else headers


@pytest.fixture
def buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleBuckets]:
    monkeypatch.setattr(cloud.client, "MOST_BYTES", MOST)
    folder = tmp_path / BUCKET / RUN
    folder.parent.mkdir(parents=True)
    run_folder(folder)
    write_adapter(folder)
    (folder / "adapter/adapter_config.json").write_text("{}")
    (folder / "check.json").write_text('{"rows": [], "has_date": false}')
    publish(folder)
    with Compressing(tmp_path) as buckets:
        yield buckets


def publish(run: Path) -> None:
    """Lists the files of the adapter with their sizes."""
    sizes = {file.name: file.stat().st_size for file in (run / "adapter").iterdir()}
    (run / "COMPLETE.json").write_text(json.dumps({"adapter": sizes}))


def in_bucket(buckets: GoogleBuckets) -> RunInBucket:
    return RunInBucket(clients=Clients("my-project", buckets.address), bucket=BUCKET, run=RUN)


def serve(buckets: GoogleBuckets) -> object:
    return look(buckets)


def preflight(buckets: GoogleBuckets) -> object:
    return result_of(PROPS, _Files(Clients("my-project", buckets.address), PROPS))


def status(buckets: GoogleBuckets) -> object:
    return metrics.read(Clients("my-project", buckets.address), OUTPUTS)


def report(buckets: GoogleBuckets) -> object:
    return record.read(in_bucket(buckets))


def verify(buckets: GoogleBuckets) -> object:
    served: Any = ServedModel(name="mine", path="/", bucket=BUCKET, run=RUN)
    return Check.read(served, Clients("my-project", buckets.address))


WEIGHTS = f"../weights/google/gemma-3-4b-it/{'0' * 40}"
READERS: list[tuple[Callable[[GoogleBuckets], object], str]] = [
    *((serve, name) for name in ("run.json", "COMPLETE.json", f"{WEIGHTS}/COMPLETE.json")),
    *((serve, name) for name in ("adapter/adapter_config.json", f"{WEIGHTS}/model/config.json")),
    *((preflight, name) for name in ("run.json", "COMPLETE.json", "adapter/adapter_config.json")),
    *((status, name) for name in ("metrics.jsonl", "COMPLETE.json", "time.json", "run.json")),
    *((report, name) for name in ("metrics.jsonl", "answers.jsonl", "run.json")),
    (verify, "check.json"),
]
FORMS = {
    "large": b" " * (MOST + 1),
    "compressed": gzip.compress(b" " * 2**24, 1),
    "of many parts": gzip.compress(b" " * 2**16) * 64,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("read", "name"), READERS, ids=lambda value: getattr(value, "__name__", value))
def test_an_object_of_any_size_is_given_up_in_one_line(
    read: Callable[[GoogleBuckets], object], name: str, form: str, buckets: GoogleBuckets
) -> None:
    assert read(buckets)
    file = buckets.folder / BUCKET / RUN / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(FORMS[form])
    if file.parent.name == "adapter":
        publish(file.parents[1])
    with pytest.raises((OnceError, OperationError), match=file.name) as error:
        read(buckets)
    text = str(error.value)
    assert "it has more than 1 MiB" in text
    assert "\n" not in text


def test_a_part_of_a_compressed_object_is_no_more_than_was_asked_for(buckets: GoogleBuckets) -> None:
    (buckets.folder / BUCKET / "rows.jsonl").write_bytes(FORMS["compressed"])
    content = Clients("my-project", buckets.address).read(BUCKET, "rows.jsonl", most_bytes=100)
    assert content == b" " * 100


def test_a_list_of_any_size_is_given_up(buckets: GoogleBuckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud.client, "MOST_BYTES", 100)
    address = f"{buckets.address}/storage/v1/"
    objects = client("storage.v1", AnonymousCredentials(), 5, address).objects()
    with pytest.raises(TooLargeError, match="it has more than"):
        objects.list(bucket=BUCKET).execute()


def test_a_run_on_this_machine_is_read_up_to_the_same_size(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    assert record.read(RunInFolder(folder=folder)).lines
    with (folder / "metrics.jsonl").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OperationError, match=r"metrics\.jsonl is not read: it has more than 64 MiB"):
        record.read(RunInFolder(folder=folder))


def test_a_file_of_a_model_is_read_up_to_the_same_size(
    good: GoodProject, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, texts = good.plan(NEUTRAL), []
    good.server.plant_page(file_of("team/chat", "config.json"), Page(content={"text": "x" * 100}))
    for most in (200, 100):
        monkeypatch.setattr(hub, "MOST_BYTES", most)
        texts.append(hub.content_of(plan, clients, "team/chat", None, "config.json"))
    whole, given_up = texts
    assert json.loads(whole or "") == {"text": "x" * 100}
    assert given_up is None


def test_an_answer_about_a_data_set_is_read_up_to_the_same_size(
    good: GoodProject, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, rows = good.plan(NEUTRAL), {"rows": ["x" * 100]}
    good.server.plant_page("dataset-viewer/first-rows", Page(content=rows))
    assert hub.viewed(plan, clients, "first-rows") == rows
    monkeypatch.setattr(hub, "MOST_BYTES", 100)
    assert hub.viewed(plan, clients, "first-rows") == {}
