"""Answers of the stand-ins: none at all, a part of a file, JSON."""

import re
from collections.abc import Mapping
from typing import Any, Final

from rehearsal.loopback import Request

# A code of an answer: the connection ends without one.
HANG_UP: Final = 0
# Code, content (bytes, or what becomes JSON) and headers.
Answer = tuple[int, Any, Mapping[str, str]]


def token_of(request: Request) -> str | None:
    """The token that a request bears."""
    return request.headers.get("Authorization", "").removeprefix("Bearer ") or None


def send(request: Request, answer: Answer) -> None:
    """Sends bytes, of a file that is there the range that was asked for, and all else as JSON."""
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
