"""Creations that are to fail, each a file: `dynamic_plugin.py`, a process of its own, sees them too."""

from collections.abc import Iterable
from pathlib import Path


class Faults:
    """The faults of one rehearsal, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, names: Iterable[str]) -> None:
        """Lets the creation of each of these resources fail once, in whichever `up` comes to it."""
        for name in names:
            (self._folder / name).touch()

    def take(self, name: str) -> str:
        """Why this creation fails, empty when it need not; asking uses the fault up."""
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return ""
        return f"the rehearsal lets the creation of {name} fail"

    @property
    def waiting(self) -> set[str]:
        """Names of the resources whose creation has not failed yet."""
        return {file.name for file in self._folder.iterdir()}

    def clear(self) -> None:
        """Drops those that have not come to pass."""
        for name in self.waiting:
            self.take(name)
