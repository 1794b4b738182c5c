"""Deletes what was left, one after the other; a failure does not stop the rest."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from tenacity import RetryError, Retrying, retry_if_result, stop_after_attempt, wait_fixed

from operations.errors import CallError, OperationError
from operations.leftovers.search import Leftover
from operations.leftovers.thing import Place

_LOOK_S: Final = 5
# As long as the program itself lets a network take (components/network.py).
_TIMEOUT_S: Final = 20 * 60


def remove(place: Place, left: Iterable[Leftover], log: Callable[[str], None]) -> list[str]:
    """Deletes everything, and returns what failed, in words.

    Args:
        place: Where.
        left: What, in the order of deletion.
        log: Told what happens.
    """
    failures: list[str] = []
    for each in left:
        title = f"{each.thing.kind.title} {each.thing.name}"
        try:
            each.thing.kind.delete(place, each.thing, _wait)
        except OperationError as error:
            if isinstance(error, CallError) and error.missing:
                log(f"{title} was gone already")
                continue
            failures.append(f"{title}: {error}")
            log(f"{title} was not deleted: {error}")
        else:
            log(f"{title} deleted")
    return failures


def _wait(ask: Callable[[], dict[str, Any]]) -> None:
    """Waits for an operation.

    Raises:
        OperationError: When it fails or takes too long.
    """
    attempts = Retrying(
        retry=retry_if_result(
            lambda operation: not operation.get("done") and operation.get("status") != "DONE"
        ),
        wait=wait_fixed(_LOOK_S),
        stop=stop_after_attempt(_TIMEOUT_S // _LOOK_S),
    )
    try:
        error = attempts(ask).get("error")
    except RetryError:
        raise OperationError(f"not done after {_TIMEOUT_S // 60} minutes; it goes on without us") from None
    if error:
        details = error.get("errors") or [error]
        raise OperationError("; ".join(str(each.get("message") or each.get("code")) for each in details))
