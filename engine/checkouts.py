"""Programs of two checkouts of the project, one after the other in one process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from engine.project import ROOT

# What the program imports of its own checkout.
PACKAGES: Final = ("cloud", "components", "stacks", "workloads")


@contextmanager
def using(checkout: Path) -> Generator[None]:
    """Lets imports of the program's packages find those of `checkout`, until the end of the context."""
    if checkout == ROOT:
        yield
        return
    path, modules = list(sys.path), _taken()
    sys.path.insert(0, str(checkout))
    try:
        yield
    finally:
        _taken()
        sys.modules.update(modules)
        sys.path[:] = path


def _taken() -> dict[str, ModuleType]:
    """The loaded modules of the program, which are loaded no more."""
    loaded = [name for name in sys.modules if name.partition(".")[0] in PACKAGES]
    return {name: sys.modules.pop(name) for name in loaded}
