"""Reads assumptions.yaml."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import yaml

FILE: Final = Path(__file__).with_name("assumptions.yaml")


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """A fact that nobody here has seen on the cloud. The head of the file documents the fields."""

    assumed: str
    otherwise: str
    source: str
    look: str


@cache
def assumptions() -> dict[str, Assumption]:
    """Every assumption by its id."""
    return {id: Assumption(**row) for id, row in yaml.safe_load(FILE.read_text()).items()}
