"""JSON that somebody else may have written: what can be read can also be counted and shown."""

import json
import math

import pytest

from components.base.bounded_json import parse

HALF = json.dumps("\ud800")


@pytest.mark.parametrize("levels", [1, 100])
def test_what_trainers_write_is_read(levels: int) -> None:
    text = f"{'[' * levels}{']' * levels}"
    assert json.dumps(parse(text)) == text
    assert parse('{"a": [1, 2.5, true, null, "\\u00e9"]}') == {"a": [1, 2.5, True, None, "é"]}


def test_a_text_of_any_size_is_refused_before_it_is_parsed() -> None:
    assert parse(" " * (2**23 - 2) + "{}") == {}
    with pytest.raises(ValueError, match="more than 8 MiB"):
        parse(" " * (2**23 - 1) + "{}")


def test_numbers_that_are_none_are_left_to_the_reader() -> None:
    assert math.isnan(parse("NaN")) and math.isinf(parse("1e999"))


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[" * 101 + "]" * 101, '{"a":' * 101 + "1" + "}" * 101, "[" * 100_000),
        *("1e40", "-1e40", "9" * 41, "9" * 5000, '{"a": [1e40]}'),
        *(HALF, f"[{HALF}]", f'{{"a": {HALF}}}', f"{{{HALF}: 1}}"),
    ],
    ids=lambda text: text[:20],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse(text)
