"""Waiting for a server is said on standard error, in words that cannot write to the terminal."""

import pytest
from tenacity import retry_if_exception_type

from operations.google.retries import retrying


def test_why_a_call_is_tried_again_is_said_in_a_line_that_the_terminal_does_not_obey(
    capsys: pytest.CaptureFixture[str],
) -> None:
    errors = iter([ConnectionError("\x1b[2Jof a\nserver\u202e")])

    def call() -> str:
        for error in errors:
            raise error
        return "an answer"

    assert retrying(retry_if_exception_type(ConnectionError))(call) == "an answer"
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "\\x1b[2Jof a server\\u202e; attempt 2 in 1 s\n"
