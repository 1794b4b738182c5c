"""A scenario leaves keys out of a topic that it does not obey."""

from typing import Annotated

import pytest
from pydantic import Field

from stacks.settings.model import ConfigModel, Without, keys_of, rule, values_of
from stacks.settings.reader import ConfigReader, SettingsError


class Lamp(ConfigModel):
    color: str = "white"
    watts: int = Field(5, ge=1)

    @rule("color")
    def _is_not_white(self) -> None:
        raise ValueError("white is no color")


class Settings(ConfigModel):
    lamp: Annotated[Lamp, Without("color")]


class Wrong(ConfigModel):
    lamp: Annotated[Lamp, Without("colour")]


def read(**values: str) -> Settings:
    return ConfigReader(stack="mine", project="llm-stacks", values=values, secrets=()).read(Settings)


def test_its_field_has_the_default_and_its_rule_is_not_asked() -> None:
    settings = read(watts="7")
    assert (settings.lamp.color, settings.lamp.watts) == ("white", 7)


def test_the_scenario_does_not_know_it() -> None:
    assert list(keys_of(Settings)) == ["watts"]
    with pytest.raises(SettingsError, match="color: unknown key; this scenario has watts"):
        read(color="blue")


def test_a_key_that_the_topic_has_not_is_an_error() -> None:
    with pytest.raises(TypeError, match="lamp has no key colour"):
        keys_of(Wrong)


def test_a_number_with_one_limit_is_told_in_words() -> None:
    assert values_of(keys_of(Settings)["watts"]) == "a whole number from 1"
