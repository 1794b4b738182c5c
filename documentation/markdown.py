"""What generated parts are made of."""

from collections.abc import Iterable, Sequence


def table(*columns: str, rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in (columns, ["---"] * len(columns), *rows))
