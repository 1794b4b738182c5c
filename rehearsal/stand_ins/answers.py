"""Answers of the stand-ins: a file or a part of it, JSON, or none at all."""

import re
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.stand_ins.loopback import Request

# The code of an answer that ends the connection without a word.
HANG_UP: Final = 0
# Code, content and headers. Content that is not bytes is sent as JSON.
Answer = tuple[int, Any, Mapping[str, str]]


def token_of(request: Request) -> str | None:
    """The bearer token of a request."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or None


def send(request: Request, answer: Answer) -> None:
    """Sends an answer. If the request asks for a range of a file, it sends only that part."""
    code, content, headers = answer
    if code == HANG_UP:
        request.close_connection = True
        return
    if not isinstance(content, bytes):
        request.answer_json(code, content, headers)
        return
    asked = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("Range", ""))
    if code == 200 and asked:
        size, (first, last) = len(content), asked.groups()
        start = int(first) if first else max(0, size - int(last))
        content = content[start : int(last) + 1 if first and last else size]
        place = f"{start}-{start + len(content) - 1}" if content else "*"
        code, headers = 206 if content else 416, {**headers, "Content-Range": f"bytes {place}/{size}"}
    request.answer(code, content, headers)
