"""Keys that remember what they were asked for."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stacks.keys import REQUIRED, Keys, Required

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A key that the program asked for.

    Args:
        values: What it may be, in words.
        default: What it is when it is absent; `REQUIRED` where it must not be.
    """

    values: str
    default: Any


class AskedKeys(Keys):
    """The configuration of one stack, which notes every key that it is asked for.

    Attributes:
        asked: The keys, in the order in which the program asked.
    """

    def __init__(
        self, *, stack: str, project: str, values: Mapping[str, str], secrets: Collection[str]
    ) -> None:
        super().__init__(stack=stack, project=project, values=values, secrets=secrets)
        self.asked: dict[str, Asked] = {}

    def parsed(
        self, key: str, parse: Callable[[str], T], default: T | Required = REQUIRED, *, set_as: str
    ) -> T:
        """As `Keys.parsed`."""
        self._note(key, f"such as `{set_as}`", _as_written(parse, default, set_as))
        return super().parsed(key, parse, default, set_as=set_as)

    def text(
        self, key: str, pattern: str, rule: str, default: str | Required = REQUIRED, *, set_as: str
    ) -> str:
        """As `Keys.text`."""
        self._note(key, rule, default)
        return super().text(key, pattern, rule, default, set_as=set_as)

    def flag(self, key: str, default: bool) -> bool:
        """As `Keys.flag`."""
        self._note(key, "`true`, `false`", default)
        return super().flag(key, default)

    def integer(self, key: str, default: T, *, minimum: int, maximum: int) -> int | T:
        """As `Keys.integer`."""
        self._note(key, f"{minimum} to {maximum}", default)
        return super().integer(key, default, minimum=minimum, maximum=maximum)

    def choice(self, key: str, choices: Collection[str], default: str | Required = REQUIRED) -> str:
        """As `Keys.choice`."""
        self._note(key, ", ".join(f"`{choice}`" for choice in choices), default)
        return super().choice(key, choices, default)

    def secret(self, key: str, rule: str, *, required: bool = True) -> None:
        """As `Keys.secret`."""
        self._note(key, f"secret: {rule}", REQUIRED if required else None)
        super().secret(key, rule, required=required)

    def none_of(self, *keys: str, because: str) -> None:
        """As `Keys.none_of`."""
        for key in keys:
            self._note(key, f"refused with the stack file's other values: {because}", None)
        super().none_of(*keys, because=because)

    def _note(self, key: str, values: str, default: Any) -> None:
        """Notes the first asking: what is said there is closer to the key than what it is made of."""
        self.asked.setdefault(key, Asked(values=values, default=default))


def _as_written(parse: Callable[[str], T], default: T | Required, example: str) -> T | Required | str:
    """The default as a stack file would say it, where that is the example."""
    if default is None or isinstance(default, Required):
        return default
    try:
        return example if parse(example) == default else default
    except ValueError:
        return default
