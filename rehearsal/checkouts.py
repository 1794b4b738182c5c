"""Programs of two checkouts of the project, one after the other in one process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rehearsal.project import ROOT

# What the program imports of its own checkout.
_PACKAGES: Final = ("stacks", "components", "workloads")


def use(checkout: Path) -> None:
    """Lets the next imports of the program's packages find those of `checkout`."""
    for name in _loaded_elsewhere(checkout):
        del sys.modules[name]
    path = str(checkout)
    sys.path[:] = [path, *(each for each in sys.path if each != path)]


@contextmanager
def restored() -> Generator[None]:
    """Puts this checkout's modules and the search path back as they were."""
    path, modules = list(sys.path), dict(sys.modules)
    try:
        yield
    finally:
        for name in _loaded_elsewhere(ROOT):
            del sys.modules[name]
        for name, module in modules.items():
            sys.modules.setdefault(name, module)
        sys.path[:] = path


def _loaded_elsewhere(checkout: Path) -> list[str]:
    """The loaded modules of the program that are not those of `checkout`."""
    return [
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _PACKAGES and checkout not in _folders(module)
    ]


def _folders(module: object) -> list[Path]:
    """The folders that a module's file is in; a namespace package has no file but folders."""
    file = getattr(module, "__file__", None)
    places = [Path(file)] if file else [Path(each) / "_" for each in getattr(module, "__path__", ())]
    return [folder for place in places for folder in place.parents]
