"""The columns that a recipe names, and why a row cannot be trained."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Columns(Protocol):
    """The keys of a recipe's section data that make a row. recipe.schema.json describes them."""

    @property
    def messages(self) -> str | None: ...
    @property
    def tools(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def reply(self) -> str: ...
    @property
    def rejected(self) -> str | None: ...
    @property
    def fields(self) -> Mapping[str, str]: ...
    @property
    def system(self) -> str | None: ...
    @property
    def prompt(self) -> str: ...
    @property
    def image(self) -> str | None: ...
    @property
    def optional(self) -> Sequence[str]: ...


class RowError(ValueError):
    """Why a row cannot be trained. A run leaves it out and counts it.

    Args:
        reason: The same words for all such rows, which are counted together.
        detail: What is wrong with this one.
    """

    def __init__(self, reason: str, detail: str = ""):
        super().__init__(detail or reason)
        self.reason = reason


EMPTY = "a text that the recipe needs is empty"


def is_gap(value: Any) -> bool:
    """Whether a value is empty. NaN is the gap of a column of numbers, and differs from itself."""
    return value is None or value != value or not str(value).strip()
