"""Cloud Storage on the loopback: the part of its JSON API that pyarrow and google-cloud-storage use."""

import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from rehearsal.stand_ins.answers import HANG_UP, Answer, send, token_of
from rehearsal.stand_ins.loopback import LoopbackServer, Request

_BUCKET: Final = "b/([a-z0-9][a-z0-9._-]+)"
_PATH: Final = re.compile(
    rf"(/upload|/download)?/storage/v1/{_BUCKET}(/o)?(?:/([^/]+)(?:/(?:rewrite|copy)To/{_BUCKET}/o/([^/]+))?)?"
)
_PART: Final = re.compile(r"bytes (?:\*|(\d+)-\d+)/(\*|\d+)")


@dataclass(kw_only=True)
class Fault:
    """A failure of coming requests.

    Args:
        status: The status of the answer. `HANG_UP` ends the connection without an answer.
        effect: Whether the request has its effect all the same.
        method: Only requests with this method fail, empty for all.
        name: Only requests fail that have this text in the object's name or in the prefix.
        times: How many requests fail.
    """

    status: int = HANG_UP
    effect: bool = False
    method: str = ""
    name: str = ""
    times: int = 1


class _Refused(Exception):
    """A refused request, with a status and a message."""


class Buckets(LoopbackServer):
    """Serves the file `FOLDER/BUCKET/NAME` as the object `NAME` of `BUCKET`, and an empty folder as `NAME/`.

    An object appears, or is replaced, when its upload is finished.

    Args:
        folder: The folder of the buckets.
        exists: Whether a bucket exists, by its name. By default it does if it has a folder.

    Attributes:
        authorize: The status, such as 403, with which a bucket refuses a token, None to admit it.
        token_of: The token of a request, None if it has none.
        faults: Failures of coming requests. The first that fits is used, and `POST /faults` adds one.
        page: The largest number of objects and prefixes in a list.
    """

    page = 1000

    def __init__(self, folder: Path, exists: Callable[[str], bool] | None = None) -> None:
        self.folder, self._exists = folder, exists or (lambda bucket: (folder / bucket).is_dir())
        self.authorize: Callable[[str, str | None], int | None] = lambda _bucket, _token: None
        self.token_of: Callable[[Request], str | None] = token_of
        self.faults: list[Fault] = []
        self._uploads: dict[str, tuple[dict[str, str], bytes]] = {}
        self._finished: dict[str, dict[str, Any]] = {}
        self._markers: set[Path] = set()
        self._generation = 0
        self._lock = threading.Lock()

    @property
    def configuration(self) -> dict[str, str]:
        """The configuration value with which a program reads these buckets."""
        return {"gcp:storageCustomEndpoint": f"{self.address}/storage/v1/"}

    def serve(self, request: Request) -> None:
        """Answers as Cloud Storage does, or by a fault."""
        body = request.body()
        with self._lock:
            answer = self._with_faults(request, body)
        send(request, answer)

    def _with_faults(self, request: Request, body: bytes) -> Answer:
        url = urlsplit(request.path)
        if url.path == "/faults":
            self.faults.append(Fault(**json.loads(body)))
            return 200, {}, {}
        match = _PATH.fullmatch(url.path)
        if not match:
            return _error(404, "no such method")
        query = dict(parse_qsl(url.query))
        name = unquote(match[4] or "") or query.get("name", "")
        fault = self._fault_of(request.command, name or query.get("prefix", ""))
        if fault and not fault.effect:
            return _error(fault.status, "a fault")
        try:
            answer = self._answer(request, match, name, query, body)
        except _Refused as refused:
            answer = _error(*refused.args)
        except OSError as error:
            # A pod may have removed a file meanwhile.
            answer = _error(503 if isinstance(error, FileNotFoundError) else 400, str(error))
        return _error(fault.status, "a fault") if fault else answer

    def _fault_of(self, method: str, name: str) -> Fault | None:
        """The fault of a request, which is used up by it, or None."""
        for fault in self.faults:
            if fault.method in ("", method) and fault.name in name:
                fault.times -= 1
                self.faults = [other for other in self.faults if other.times]
                return fault
        return None

    def _answer(
        self, request: Request, match: re.Match[str], name: str, query: dict[str, str], body: bytes
    ) -> Answer:
        service, bucket, objects, _, *target = [unquote(part or "") for part in match.groups()]
        if not self._exists(bucket):
            raise _Refused(404, "The specified bucket does not exist.")
        if status := self.authorize(bucket, self.token_of(request)):
            raise _Refused(status, f"The caller has no access to the bucket {bucket}.")
        if service == "/upload":
            return self._upload(request, bucket, name, query, body)
        if target[0]:
            copied = self._store(*target, query, self._present(bucket, name, {}).read_bytes())
            # A copy is described as an object, a rewrite by what is added.
            sizes = {"totalBytesRewritten": copied["size"], "objectSize": copied["size"]}
            return 200, {**copied, "done": True, **sizes, "resource": copied}, {}
        if name:
            return self._object(request.command, bucket, name, query)
        return 200, self._list(bucket, query) if objects else {"name": bucket, "id": bucket}, {}

    def _object(self, method: str, bucket: str, name: str, query: dict[str, str]) -> Answer:
        file = self._present(bucket, name, query)
        if method == "DELETE":
            self._check(file, query)
            self._markers.discard(file)
            folder = file if file.is_dir() else file.parent
            if folder != file:
                file.unlink()
            # Parents that are empty now are no objects, so they are removed too.
            with suppress(OSError):
                while folder not in self._markers | {self.folder / bucket}:
                    folder.rmdir()
                    folder = folder.parent
            return 204, b"", {}
        if query.get("alt") != "media":
            return 200, self._described(file), {}
        content = b"" if file.is_dir() else file.read_bytes()
        return 200, content, {"X-Goog-Generation": str(self._generation_of(file))}

    def _list(self, bucket: str, query: dict[str, str]) -> dict[str, Any]:
        """A page of a list: objects, and prefixes up to the delimiter."""
        root, prefix = self.folder / bucket, query.get("prefix", "")
        # The file of an object, None for a prefix.
        entries: dict[str, Path | None] = {}
        for file in root.rglob("*"):
            name = file.relative_to(root).as_posix() + ("/" if file.is_dir() else "")
            if name.startswith(prefix) and self._generation_of(file):
                # Without a delimiter, no name has the end of a line.
                head, delimiter, rest = name.removeprefix(prefix).partition(query.get("delimiter", "\n"))
                is_object = not delimiter or (not rest and query.get("includeTrailingDelimiter") == "true")
                entry = prefix + head + delimiter
                entries[entry] = file if is_object else entries.get(entry)
        names = sorted(name for name in entries if name > query.get("pageToken", ""))
        page = names[: min(self.page, int(query.get("maxResults", self.page)))]
        items = [self._described(file) for name in page if (file := entries[name])]
        more = {"nextPageToken": page[-1]} if page != names else {}
        return {"items": items, "prefixes": [name for name in page if not entries[name]], **more}

    def _upload(self, request: Request, bucket: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        if key := query.get("upload_id"):
            return self._continue(request, bucket, name, key, body)
        metadata, kind = b"{}", query["uploadType"]
        if kind == "multipart":
            _, metadata, body, _ = body.split(f"--{request.headers.get_param('boundary')}".encode())
            metadata = metadata.partition(b"\r\n\r\n")[2]
            body = body.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        name = name or json.loads(body if kind == "resumable" else metadata)["name"]
        if kind != "resumable":
            return 200, self._store(bucket, name, query, body), {}
        key = uuid.uuid4().hex
        self._uploads[key] = query, b""
        place = f"http://{request.headers['Host']}/upload/storage/v1/b/{bucket}/o"
        asked = f"uploadType=resumable&name={quote(name, safe='')}&upload_id={key}"
        return 200, b"", {"Location": f"{place}?{asked}"}

    def _continue(self, request: Request, bucket: str, name: str, key: str, body: bytes) -> Answer:
        part = _PART.fullmatch(request.headers.get("Content-Range", f"bytes 0-{len(body)}/{len(body)}"))
        if key in self._finished:
            return 200, self._finished[key], {}
        if not part or key not in self._uploads:
            raise _Refused(404, f"no upload {key}")
        (first, total), (query, kept) = part.groups(), self._uploads[key]
        if first and int(first) <= len(kept):
            kept += body[len(kept) - int(first) :]
            if total != str(len(kept)):
                # Cloud Storage keeps a multiple of 256 KiB, except of the last chunk.
                kept = kept[: len(kept) >> 18 << 18]
            self._uploads[key] = query, kept
        if total != str(len(kept)):
            return 308, b"", {"Range": f"bytes=0-{len(kept) - 1}"} if kept else {}
        finished = self._finished[key] = self._store(bucket, name, query, self._uploads.pop(key)[1])
        # google-cloud-storage compares its own checksum with the answer's.
        if checksum := re.search("crc32c=([^,]+)", request.headers.get("X-Goog-Hash", "")):
            finished["crc32c"] = checksum[1]
        return 200, finished, {}

    def _store(self, bucket: str, name: str, query: dict[str, str], content: bytes) -> dict[str, Any]:
        file = self._file(bucket, name)
        self._check(file, query)
        (file if name.endswith("/") else file.parent).mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            self._markers.add(file)
        elif file.is_dir():
            raise _Refused(400, f"{name} is the folder of other objects")
        else:
            # A hidden file on the same disk, until it is complete.
            written = self.folder / f".{uuid.uuid4().hex}"
            written.write_bytes(content)
            self._generation = max(self._generation + 1, time.time_ns() // 1000)
            os.utime(written, ns=(0, self._generation * 1000))
            written.replace(file)
        return self._described(file)

    def _file(self, bucket: str, name: str) -> Path:
        if {"", ".", ".."} & set(name.removesuffix("/").split("/")):
            raise _Refused(400, f"an object called {name!r} cannot be a file")
        return self.folder / bucket / name

    def _present(self, bucket: str, name: str, query: dict[str, str]) -> Path:
        file = self._file(bucket, name)
        generation = self._generation_of(file)
        is_there = generation and name.endswith("/") == file.is_dir()
        if not is_there or query.get("generation", str(generation)) != str(generation):
            raise _Refused(404, f"No such object: {bucket}/{name}")
        return file

    def _check(self, file: Path, query: dict[str, str]) -> None:
        if query.get("ifGenerationMatch", str(self._generation_of(file))) != str(self._generation_of(file)):
            raise _Refused(412, "At least one of the pre-conditions did not hold.")

    def _generation_of(self, file: Path) -> int:
        """The generation of a file's object. 0 if there is no object, as for a folder with other objects."""
        if file.is_dir():
            return int(file in self._markers or not any(file.iterdir()))
        return file.stat().st_mtime_ns // 1000 if file.exists() else 0

    def _described(self, file: Path) -> dict[str, Any]:
        bucket, _, name = file.relative_to(self.folder).as_posix().partition("/")
        generation, size = self._generation_of(file), 0 if file.is_dir() else file.stat().st_size
        updated = f"{datetime.fromtimestamp(generation / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        stated = {"bucket": bucket, "name": name, "size": str(size), "generation": str(generation)}
        # The mark by which pyarrow knows a folder.
        mark = {"name": f"{name}/", "metadata": {"arrow/gcsfs": "directory"}} if file.is_dir() else {}
        return {"kind": "storage#object", "updated": updated, **stated, **mark}


def _error(code: int, message: str) -> Answer:
    return code, {"error": {"code": code, "message": message, "errors": [{"message": message}]}}, {}
