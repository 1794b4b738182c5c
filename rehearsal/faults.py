"""Creations that are to fail, each a file: `dynamic_plugin.py`, a process of its own, sees them too."""

from collections.abc import Iterable
from pathlib import Path


class Faults:
    """The faults of one rehearsal, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, names: Iterable[str], text: str = "", times: int = 1) -> None:
        """Lets the creation of each of these resources fail, in whichever `up` comes to it.

        Args:
            text: What the platform says, in one line; it says it `times` times.
        """
        for name in names:
            said = text or f"the rehearsal lets the creation of {name} fail"
            (self._folder / name).write_text(f"{said}\n" * times)

    def take(self, name: str) -> str:
        """Why this creation fails, empty when it need not; asking uses the fault up."""
        file = self._folder / name
        try:
            said, *more = file.read_text().splitlines(keepends=True)
        except FileNotFoundError:
            return ""
        if more:
            file.write_text("".join(more))
        else:
            file.unlink()
        return said.strip()

    @property
    def waiting(self) -> set[str]:
        """Names of the resources whose creation has not failed yet."""
        return {file.name for file in self._folder.iterdir()}
