"""The digest in a name changes with the content and with nothing else."""

import re

import pulumi
import pytest

from components.base.fingerprint import PartlyKnown, fingerprint, hashed_name, joined, outputs_in


def test_the_same_content_has_the_same_digest_in_any_order_of_keys() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})


def test_other_content_has_another_digest() -> None:
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


def test_what_is_not_known_yet_does_not_make_the_digest_unknown() -> None:
    assert fingerprint({"a": pulumi.Output.from_input("x")}) == fingerprint(
        {"a": pulumi.Output.from_input("y")}
    )


def test_words_beside_what_is_not_known_yet_count() -> None:
    unknown = pulumi.Output.from_input("x")
    texts = (("run --hours=", 4, " in ", unknown), ("run --hours=", 8, " in ", unknown))
    assert len({fingerprint({"command": joined(*parts)}) for parts in texts}) == 2
    assert fingerprint(joined("a", unknown)) == fingerprint(joined("a", pulumi.Output.from_input("y")))
    names = (PartlyKnown(unknown, "mine"), PartlyKnown(unknown, "theirs"), PartlyKnown(unknown, None))
    assert len({fingerprint(joined("gs://", name)) for name in names}) == 3


def test_the_outputs_in_a_value_are_found_at_any_depth() -> None:
    first, second = pulumi.Output.from_input("x"), pulumi.Output.from_input("y")
    tree = {"a": [first, {"b": PartlyKnown(second, ["known"])}], "c": "text"}
    assert list(outputs_in(tree)) == [first, second]


def test_a_value_that_is_no_data_is_rejected() -> None:
    with pytest.raises(TypeError, match="object has no fingerprint"):
        fingerprint(object())


@pytest.mark.parametrize(
    ("recipe", "start"),
    [
        ("gemma-3-4b-vision", "gemma-3-4b-vision-"),
        ("gemma-3.1-mine", "gemma-3-1-mine-"),
        ("4b-vision", "run-4b-vision-"),
        ("My_Recipe.", "my-recipe-"),
        ("a-recipe-with-a-name-as-long-as-this", "a-recipe-with-a-name-as-lo-"),
    ],
)
def test_any_recipe_gives_a_name_that_every_kind_takes(recipe: str, start: str) -> None:
    name = hashed_name(recipe, 35, recipe)
    assert re.fullmatch("[a-z]([a-z0-9-]*[a-z0-9])?", name)
    assert name.startswith(start)
    assert len(name) <= 35
    assert name != hashed_name(recipe, 35, "another recipe")
