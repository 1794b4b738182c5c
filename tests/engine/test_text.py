"""What somebody else has written is shown and not obeyed."""

import pytest

from engine.text import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("a\x9b1m\x07\r", r"a\x9b1m\x07\r"),
        ("\u202eelif.exe", r"\u202eelif.exe"),
        ("bu\u200bcket", r"bu\u200bcket"),
        ("bu\u3164cket\u2800", r"bu\u3164cket\u2800"),
        ("bu\ufe0fcket\U000e0101", r"bu\ufe0fcket\U000e0101"),
        ("half \ud83d of it", r"half \ud83d of it"),
        ("two\u2028lines", r"two\u2028lines"),
    ],
)
def test_what_is_obeyed_or_not_seen_is_shown_by_its_code(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_what_is_seen_stays() -> None:
    text = "ümläut, 模型, 😀, a\ttab and\ntwo lines"
    assert visible(text) == text
