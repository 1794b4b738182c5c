"""Reads assumptions.yaml."""

from functools import cache
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

FILE: Final = Path(__file__).with_name("assumptions.yaml")

_Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)+$")]
_Text = Annotated[str, Field(min_length=1)]


class Assumption(BaseModel):
    """A fact that nobody here has seen on the cloud; the head of the file says what its fields hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    assumed: _Text
    otherwise: _Text
    source: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d \S")]
    look: _Text


@cache
def assumptions() -> dict[str, Assumption]:
    """Every assumption by its id.

    Raises:
        ValidationError: When the file is not as its head says; names each id and what is wrong with it.
    """
    return TypeAdapter(dict[_Id, Assumption]).validate_python(yaml.safe_load(FILE.read_text()))
