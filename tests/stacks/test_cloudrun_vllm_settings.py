"""What the settings of cloudrun-vllm say about who may call the service."""

import pytest

from tests.stacks.configuration import CLOUDRUN, load


def test_the_tutorial_s_recipe_is_the_default() -> None:
    assert load(CLOUDRUN).training.recipe == "gemma-3-1b-emoji"


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("[]", ()),
        ("user:me@example.com", ("user:me@example.com",)),
        (
            '["group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"]',
            ("group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"),
        ),
        ('["allUsers", "allUsers"]', ("allUsers",)),
        # Two resources for one member would take the right from each other.
        ('["user:Me@example.com", "user:me@example.com"]', ("user:me@example.com",)),
    ],
)
def test_invokers_are_one_member_or_a_list(text: str, members: tuple[str, ...]) -> None:
    assert load({**CLOUDRUN, "llm-stacks:invokers": text}).invokers == members
