"""Runs the programs of two checkouts of the project, one after the other in one process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from engine.project import ROOT

# The packages that the program imports from its own checkout.
PACKAGES: Final = ("cloud", "components", "stacks", "workloads")


@contextmanager
def using(checkout: Path) -> Generator[None]:
    """Makes the program's packages those of `checkout` until the end of the context."""
    if checkout == ROOT:
        yield
        return
    path, modules = list(sys.path), _unload()
    sys.path.insert(0, str(checkout))
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
