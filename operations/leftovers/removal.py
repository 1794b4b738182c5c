"""Deletes what was left, one after the other; a failure does not stop the rest."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from operations.errors import CallError, OperationError
from operations.leftovers.search import Leftover
from operations.leftovers.thing import Place

Pause = Callable[[float], None]

_LOOK_S: Final = 5.0
# As long as the program itself lets a network take (components/network.py).
_TIMEOUT_S: Final = 20 * 60.0


def remove(place: Place, left: Iterable[Leftover], log: Callable[[str], None], pause: Pause) -> list[str]:
    """Deletes everything, and returns what failed, in words.

    Args:
        place: Where.
        left: What, in the order of deletion.
        log: Told what happens.
        pause: Waits between two looks at a deletion.
    """
    failures: list[str] = []
    for each in left:
        title = f"{each.thing.kind.title} {each.thing.name}"
        try:
            each.thing.kind.delete(place, each.thing, lambda ask: _wait(ask, pause))
        except CallError as error:
            if error.missing:
                log(f"{title} was gone already")
                continue
            failures.append(f"{title}: {error}")
            log(f"{title} was not deleted: {error}")
        except OperationError as error:
            failures.append(f"{title}: {error}")
            log(f"{title} was not deleted: {error}")
        else:
            log(f"{title} deleted")
    return failures


def _wait(ask: Callable[[], dict[str, Any]], pause: Pause) -> None:
    """Waits for an operation.

    Raises:
        OperationError: When it fails or takes too long.
    """
    waited = 0.0
    while True:
        operation = ask()
        if operation.get("done") or operation.get("status") == "DONE":
            break
        if waited >= _TIMEOUT_S:
            raise OperationError(f"not done after {_TIMEOUT_S / 60:.0f} minutes; it goes on without us")
        pause(_LOOK_S)
        waited += _LOOK_S
    error = operation.get("error")
    if error:
        details = error.get("errors") or [error]
        raise OperationError("; ".join(str(each.get("message") or each.get("code")) for each in details))
