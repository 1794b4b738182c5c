"""Creations that are to fail."""

from collections import deque
from collections.abc import Iterable


class Faults:
    """The faults of one rehearsal."""

    def __init__(self) -> None:
        self._texts: dict[str, deque[str]] = {}

    def add(self, names: Iterable[str], text: str = "", times: int = 1) -> None:
        """Lets the creation of each of these resources fail, in whichever `up` comes to it.

        Args:
            text: What the platform says, in one line; it says it `times` times.
        """
        for name in names:
            said = text or f"the rehearsal lets the creation of {name} fail"
            self._texts[name] = deque([said] * times)

    def take(self, name: str) -> str:
        """Why this creation fails, empty when it need not; asking uses the fault up."""
        texts = self._texts.get(name)
        return texts.popleft() if texts else ""

    @property
    def waiting(self) -> set[str]:
        """Names of the resources whose creation has not failed yet."""
        return {name for name, texts in self._texts.items() if texts}
