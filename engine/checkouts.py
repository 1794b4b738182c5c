"""Runs the programs of two checkouts of the project, one after the other in one process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from engine.project import ROOT

# The packages that the program imports from its own checkout. The last four are the readers of recipes.
# `workloads` puts them on the path, as containers do.
PACKAGES: Final = (
    *("cloud", "components", "stacks", "workloads"),
    *("shared", "conversations", "finetune", "maxtext_driver"),
)


@contextmanager
def using(checkout: Path) -> Generator[None]:
    """Makes the program's packages those of `checkout` until the end of the context."""
    if checkout == ROOT:
        yield
        return
    path, modules = list(sys.path), _unload()
    # Ours would hide the other checkout's readers of recipes, which are appended to the path.
    sys.path[:] = [str(checkout), *(entry for entry in path if entry != str(ROOT / "workloads"))]
    try:
        yield
    finally:
        _unload()
        sys.modules.update(modules)
        sys.path[:] = path


def _unload() -> dict[str, ModuleType]:
    """Unloads the program's modules and returns them by name."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    return {name: sys.modules.pop(name) for name in loaded}
