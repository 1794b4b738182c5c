"""The bucket and the metadata server by their protocols, where the training tests do not reach them."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from google.auth import exceptions
from google.auth.compute_engine import Credentials, _metadata
from google.auth.transport.requests import Request

from rehearsal.stand_ins.bucket import Buckets
from rehearsal.stand_ins.metadata import MetadataServer

OBJECTS = "/storage/v1/b/bucket/o"
MEDIA = f"/upload{OBJECTS}?uploadType=media&name="
CHUNK = bytes(256 << 10)


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    (tmp_path / "bucket").mkdir()
    with Buckets(tmp_path) as buckets:
        yield buckets


def ask(buckets: Buckets, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any, Any]:
    """Status, headers and content. JSON is parsed."""
    connection = HTTPConnection(buckets.address.removeprefix("http://"))
    connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    response = connection.getresponse()
    content = response.read()
    is_json = "json" in response.headers.get("Content-Type", "")
    return response.status, response.headers, json.loads(content) if is_json else content


def test_an_object_is_seen_when_its_upload_is_finished_and_repeated_questions_get_the_same_answer(
    buckets: Buckets,
) -> None:
    _, headers, _ = ask(buckets, "POST", f"/upload{OBJECTS}?uploadType=resumable&name=a%2Fb")
    session = headers["Location"].removeprefix(buckets.address)
    size = len(CHUNK) + 7
    status, headers, _ = ask(buckets, "PUT", session, CHUNK + b"cut", Content_Range=f"bytes 0-{size - 5}/*")
    assert (status, headers["Range"]) == (308, f"bytes=0-{len(CHUNK) - 1}")
    assert ask(buckets, "GET", f"{OBJECTS}/a%2Fb")[0] == 404
    assert ask(buckets, "PUT", session, Content_Range="bytes */*")[1]["Range"] == headers["Range"]
    last = f"bytes {len(CHUNK)}-{size - 1}/{size}"
    status, _, described = ask(buckets, "PUT", session, b"the end", Content_Range=last)
    assert (status, described["size"]) == (200, str(size))
    for question in (last, f"bytes */{size}", "bytes */*"):
        assert ask(buckets, "PUT", session, Content_Range=question)[2] == described
    assert (buckets.folder / "bucket/a/b").read_bytes() == CHUNK + b"the end"
    assert ask(buckets, "GET", f"{OBJECTS}/a%2Fb?alt=media", Range="bytes=-3")[::2] == (206, b"end")


def test_a_replaced_object_is_another_generation(buckets: Buckets) -> None:
    first = ask(buckets, "POST", f"{MEDIA}a", b"1")[2]["generation"]
    assert ask(buckets, "POST", f"{MEDIA}a&ifGenerationMatch=0", b"2")[0] == 412
    assert ask(buckets, "POST", f"{MEDIA}a&ifGenerationMatch={first}", b"2")[0] == 200
    assert ask(buckets, "GET", f"{OBJECTS}/a?generation={first}")[0] == 404
    assert ask(buckets, "DELETE", f"{OBJECTS}/a?ifGenerationMatch={first}")[0] == 412
    assert (buckets.folder / "bucket/a").read_text() == "2"


def test_a_list_has_pages_and_folders(buckets: Buckets) -> None:
    buckets.page = 2
    for name in ("a/1", "a/2", "b", "c/1", "d/"):
        ask(buckets, "POST", MEDIA + name)
    pages, token = [], ""
    while token is not None:
        _, _, listed = ask(buckets, "GET", f"{OBJECTS}?delimiter=/&pageToken={token}")
        pages.append((listed["prefixes"], [item["name"] for item in listed["items"]]))
        token = listed.get("nextPageToken")
    assert pages == [(["a/"], ["b"]), (["c/", "d/"], [])]
    _, _, listed = ask(buckets, "GET", f"{OBJECTS}?prefix=d")
    assert [item["name"] for item in listed["items"]] == ["d/"]


def test_of_a_deleted_object_no_folder_stays_but_a_marked_one(buckets: Buckets) -> None:
    for name in ("marked/", "marked/a", "b/c/d"):
        ask(buckets, "POST", MEDIA + name)
    for name in ("marked%2Fa", "b%2Fc%2Fd"):
        assert ask(buckets, "DELETE", f"{OBJECTS}/{name}")[0] == 204
    assert [path.name for path in (buckets.folder / "bucket").rglob("*")] == ["marked"]
    assert ask(buckets, "DELETE", f"{OBJECTS}/b%2Fc%2Fd")[0] == 404


@pytest.mark.parametrize("name", ["../other", "a//b", "/a", "a/b/c", "a"])
def test_a_name_that_no_file_can_have_is_refused(name: str, buckets: Buckets) -> None:
    ask(buckets, "POST", f"{MEDIA}a/b")
    assert ask(buckets, "POST", MEDIA + name)[0] == 400
    assert [path.name for path in buckets.folder.rglob("*") if path.is_file()] == ["b"]


def test_another_process_may_ask_for_a_fault(buckets: Buckets) -> None:
    fault = {"status": 503, "method": "GET", "name": "a", "times": 2}
    ask(buckets, "POST", "/faults", json.dumps(fault).encode())
    assert ask(buckets, "POST", f"{MEDIA}a")[0] == 200
    assert [ask(buckets, "GET", f"{OBJECTS}/a")[0] for _ in range(3)] == [503, 503, 200]


def test_google_s_library_gets_the_token_of_the_process_s_address_or_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokens = {"127.0.0.1": "token"}
    with MetadataServer(tokens.get, "project", "me@project") as metadata:
        host = metadata.address.removeprefix("http://")
        monkeypatch.setattr(_metadata, "_GCE_METADATA_HOST", host)
        monkeypatch.setenv("GCE_METADATA_HOST", host)
        credentials = Credentials()
        credentials.refresh(Request())
        assert (credentials.token, credentials.service_account_email) == ("token", "me@project")
        assert _metadata.get_project_id(Request()) == "project"
        tokens.clear()
        with pytest.raises(exceptions.RefreshError):
            Credentials().refresh(Request())
        connection = HTTPConnection(host)
        connection.request("GET", "/computeMetadata/v1/project/project-id")
        assert connection.getresponse().status == 403
