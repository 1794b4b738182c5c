"""Reads assumptions.yaml."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from operations.errors import OperationError

FILE: Final = Path(__file__).with_name("assumptions.yaml")


class Assumption(BaseModel):
    """A fact that nobody here has seen on the cloud; the head of the file says what its fields hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")
    assumed: str = Field(min_length=1)
    source: str = Field(pattern=r"^\d{4}-\d\d-\d\d \S")
    look: str = Field(min_length=1)


@cache
def assumptions() -> dict[str, Assumption]:
    """Every assumption by its id.

    Raises:
        OperationError: When the file is not as its head says; names each row and what is wrong with it.
    """
    return parse(FILE.read_text())


def parse(text: str) -> dict[str, Assumption]:
    """The assumptions of a text such as the file's; errors as of `assumptions`."""
    try:
        tree = yaml.safe_load(text)
        rows = TypeAdapter(list[Assumption]).validate_python(tree)
    except yaml.YAMLError as error:
        raise OperationError(f"{FILE.name} is no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        wrong = [
            ": ".join((_row(tree, *each["loc"][:1]), *map(str, each["loc"][1:]), each["msg"]))
            for each in error.errors()
        ]
        raise OperationError(f"{FILE.name}: {'; '.join(wrong)}") from None
    pairs = ((row.id, after.id) for row, after in pairwise(rows))
    wrong = [f"{after}: goes before {before}, once" for before, after in pairs if after <= before]
    if wrong:
        raise OperationError(f"{FILE.name}: {'; '.join(wrong)}")
    return {row.id: row for row in rows}


def _row(tree: Any, *place: int | str) -> str:
    """What a person finds a row by."""
    if not place:
        return "the file"
    row = tree[place[0]]
    return str((isinstance(row, dict) and row.get("id")) or f"row {int(place[0]) + 1}")
