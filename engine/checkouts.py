"""Programs of two checkouts of the project, one after the other in one process."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from engine.project import ROOT

# What the program imports of its own checkout.
_PACKAGES: Final = ("cloud", "components", "stacks", "workloads")


def use(checkout: Path) -> None:
    """Lets the next imports of the program's packages find those of `checkout`."""
    for name in _elsewhere(checkout):
        del sys.modules[name]
    path = str(checkout)
    sys.path[:] = [path, *(each for each in sys.path if each != path)]


@contextmanager
def restored() -> Generator[None]:
    """Puts the modules and the search path back as they were, should another checkout have been used."""
    path, modules = list(sys.path), _loaded()
    try:
        yield
    finally:
        now = _loaded()
        if any(now.get(name) is not module for name, module in modules.items()) or _elsewhere(ROOT):
            for name in now:
                del sys.modules[name]
            sys.modules.update(modules)
        sys.path[:] = path


def _loaded() -> dict[str, ModuleType]:
    """The loaded modules of the program."""
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in _PACKAGES}


def _elsewhere(checkout: Path) -> list[str]:
    """Names of the loaded modules of the program that are not those of `checkout`."""
    return [name for name, module in _loaded().items() if checkout not in _folders(module)]


def _folders(module: ModuleType) -> list[Path]:
    """The folders that a module's file is in; a namespace package has no file but folders."""
    file = getattr(module, "__file__", None)
    places = [Path(file)] if file else [Path(each) / "_" for each in getattr(module, "__path__", ())]
    return [folder for place in places for folder in place.parents]
