"""What is assumed of the cloud, as tables: facts, and how long resources take."""

from collections.abc import Mapping
from functools import cache

from cloud import records
from cloud.record import ANY_CALL, Minutes
from operations.first_run.assumptions import assumptions


def facts() -> str:
    """Every assumption but those that are minutes, with how it can be looked at."""
    rows = [
        f"| `{row.id}` | {row.assumed} | {row.source} | {row.look or '`first-run` measures it'} |\n"
        for row in assumptions().values()
        if row.id not in _guesses()
    ]
    return "".join(["| id | assumed | source | look |\n|---|---|---|---|\n", *rows])


def minutes() -> str:
    """The minutes of the records that nobody published, by what they are guessed from."""
    rows = [
        f"| `{id}` | {'; '.join(f'{what} {_figures(each)}' for what, each in found.items())} "
        f"| {assumptions()[id].assumed} |\n"
        for id, found in sorted(_guesses().items())
    ]
    head = "| id | minutes to create, update, delete | guessed from |\n|---|---|---|\n"
    return "".join([head, *rows])


@cache
def _guesses() -> Mapping[str, Mapping[str, Minutes]]:
    """By the id of an assumption, which kinds have its minutes; what many kinds share, once."""
    found: dict[str, dict[Minutes, str]] = {ANY_CALL.assumption: {ANY_CALL: "anything else"}}
    for record in records.every().values():
        for entry in record.minutes:
            if entry.assumption:
                kinds = found.setdefault(entry.assumption, {})
                kinds[entry] = "objects" if entry in kinds else record.type.rpartition(":")[2]
    return {id: {what: entry for entry, what in kinds.items()} for id, kinds in found.items()}


def _figures(entry: Minutes) -> str:
    minutes = (entry.create, entry.update, entry.delete)
    return ", ".join("-" if each is None else f"{each:g}" for each in minutes)
