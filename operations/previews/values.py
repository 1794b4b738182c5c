"""How a value of a property reads in a comment."""

import difflib
import json
from collections.abc import Mapping
from typing import Any, Final

from cloud.inputs import is_unknown

COMPUTED: Final = "(known after apply)"
_LONGEST: Final = 160


def described(value: Any) -> str:
    """A value in one line; empty for none."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _one_line(value)
    return _cut(json.dumps(_with_words(value), sort_keys=True, ensure_ascii=False))


def change_of(old: Any, new: Any) -> tuple[str, str]:
    """Both values in one line each; of two long texts only how far they differ."""
    if isinstance(old, str) and isinstance(new, str) and ("\n" in old or "\n" in new):
        before, after = old.splitlines(), new.splitlines()
        marks = [line[0] for line in difflib.ndiff(before, after)]
        return f"{len(before)} lines", f"{len(after)} lines: {marks.count('+')} new, {marks.count('-')} gone"
    return described(old), described(new)


def _one_line(text: str) -> str:
    if is_unknown(text):
        return COMPUTED
    lines = text.splitlines()
    if len(lines) > 1:
        return f"{len(lines)} lines"
    return _cut(text) or '""'


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _with_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_words(item) for item in value]
    return COMPUTED if is_unknown(value) else value
