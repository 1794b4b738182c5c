"""The files of a Python package that are shipped to where it runs."""

from pathlib import Path
from typing import Final

_SHIPPED: Final = ("*.py", "recipes/*.yaml")


def package_files(package: Path) -> dict[str, str]:
    """Path below the package's parent to text, of every module and recipe, sorted.

    Raises:
        ValueError: When the folder is not a Python package.
    """
    if not (package / "__init__.py").is_file():
        raise ValueError(f"{package} is not a Python package: it has no __init__.py")
    paths = sorted(path for pattern in _SHIPPED for path in package.glob(pattern))
    return {path.relative_to(package.parent).as_posix(): path.read_text() for path in paths}
