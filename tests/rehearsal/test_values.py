"""Which configuration a rehearsal runs with."""

from pathlib import Path

import pytest

from engine.configuration import configuration
from engine.errors import EngineError
from tests import plans
from tests.neutral_stacks import NEUTRAL

STACK = NEUTRAL
# Another checkout has only the program's own scenarios.
SCENARIO = plans.stacks_with("hfToken", "wandbKey")[0]
RESERVED = {"capacity.type": "reservation"}
RESERVATION = "llm-stacks:capacity.reservation"


def test_fake_values_fill_exactly_what_the_stack_file_leaves_out() -> None:
    complete = configuration(STACK, RESERVED)
    assert complete.fake == ["gcp:project", RESERVATION, "llm-stacks:hfToken"]
    assert complete.plain["gcp:region"] == "us-central1"


def test_the_token_is_a_secret_and_never_plain() -> None:
    for overrides in ({}, {"hfToken": "hf_mine"}):
        complete = configuration(STACK, overrides)
        assert list(complete.secret) == ["llm-stacks:hfToken"]
        assert "llm-stacks:hfToken" not in complete.plain


@pytest.mark.parametrize(
    ("stack", "overrides", "fake"),
    [
        (STACK, {"gcp:project": "p", "imageUri": "mine"}, {"llm-stacks:hfToken"}),
        (STACK, RESERVED, {"gcp:project", "llm-stacks:hfToken", RESERVATION}),
        # A reservation is needed where one is used, and the token by who downloads with it.
        (STACK, {"capacity.type": "spot"}, {"gcp:project", "llm-stacks:hfToken"}),
        ("tpu-maxtext", {}, {"gcp:project"}),
    ],
)
def test_no_fake_value_is_given_where_none_is_needed(
    stack: str, overrides: dict[str, str], fake: set[str]
) -> None:
    complete = configuration(stack, overrides)
    assert set(complete.fake) == fake
    assert set(overrides.values()) <= set(complete.plain.values())


def test_values_that_are_encrypted_in_the_stack_file_are_not_the_rehearsals_to_read(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.mine.yaml").write_text(
        f"config:\n  gcp:project: p\n  gcp:region: us-central1\n  llm-stacks:scenario: {SCENARIO}\n"
        "  llm-stacks:hfToken:\n    secure: v1:abc\n  llm-stacks:wandbKey:\n    secure: v1:ghi\n"
        "encryptionsalt: v1:def\n"
    )
    complete = configuration("mine", {}, tmp_path)
    assert "llm-stacks:hfToken" in complete.fake
    # A secret that the program can do without has no fake value, and is left out.
    assert "llm-stacks:wandbKey" not in complete.plain | complete.secret
    assert complete.plain["gcp:project"] == "p"


def test_a_secret_that_is_committed_in_plain_text_stays_that_for_the_program_to_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = f"config:\n  gcp:project: p\n  gcp:region: us-central1\n  llm-stacks:scenario: {SCENARIO}\n"
    plain = "  llm-stacks:hfToken: hf_of_a_test\n  gcp:accessToken: ya29.of-a-test\n"
    (tmp_path / "Pulumi.mine.yaml").write_text(settings + plain)
    # In another checkout a plain secret is allowed, because the merge request may remove it.
    assert set(configuration("mine", {}, tmp_path).secret.values()) == {"hf_of_a_test", "ya29.of-a-test"}
    monkeypatch.setattr("engine.configuration.ROOT", tmp_path)
    assert configuration("mine", {}, tmp_path).secret == {}
    typed = configuration("mine", {"hfToken": "hf_typed", "gcp:accessToken": "typed"}, tmp_path)
    assert set(typed.secret.values()) == {"hf_typed", "typed"}


def test_a_program_from_before_the_rehearsal_asked_it_is_rejected_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "__init__.py").touch()
    with pytest.raises(EngineError, match="too old"):
        configuration(STACK, {}, tmp_path)
