"""Which changes of inputs replace a resource and which update it in place."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

_TABLE = Path(__file__).with_name("immutable.yaml")


@dataclass(frozen=True)
class Changes:
    """What differs between old and new inputs.

    Args:
        updates: Paths that change in place.
        replaces: Paths whose change makes a new resource.
        delete_first: Whether the old resource must go before the new one can be made.
    """

    updates: list[str] = field(default_factory=list)
    replaces: list[str] = field(default_factory=list)
    delete_first: bool = False


@cache
def immutable(type_token: str) -> frozenset[str] | None:
    """Paths that replace when they change; None when every input does (IAM members and bindings)."""
    table: dict[str, list[str]] = yaml.safe_load(_TABLE.read_text())
    if type_token.split(":")[-1].lower().endswith(("iammember", "iambinding")):
        return None
    paths = list(table.get(type_token, ()))
    if type_token in table["nodeConfig"]:
        paths += [f"nodeConfig.{path}" for path in table["below nodeConfig"]]
    return frozenset(paths)


def replaces(type_token: str, path: str) -> bool:
    """Whether a change at `path` makes a new resource."""
    paths = immutable(type_token)
    if paths is None:
        return True
    steps = path.replace("[", ".[").split(".")
    plain = [step for step in steps if not step.startswith("[")]
    return any(".".join(plain[:count]) in paths for count in range(1, len(plain) + 1))
