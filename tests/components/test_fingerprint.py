"""The digest in a name changes with the content and with nothing else."""

import pulumi
import pytest

from components.fingerprint import fingerprint


def test_the_same_content_has_the_same_digest_in_any_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})


def test_other_content_has_another_digest() -> None:
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


def test_what_is_not_known_yet_does_not_make_the_digest_unknown() -> None:
    assert fingerprint({"a": pulumi.Output.from_input("x")}) == fingerprint(
        {"a": pulumi.Output.from_input("y")}
    )


def test_a_value_that_is_no_data_is_rejected() -> None:
    with pytest.raises(TypeError, match="object has no fingerprint"):
        fingerprint(object())
