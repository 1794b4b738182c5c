"""Packages more in a training image: a locked file of the user's beside the locked file of the image."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

# The file of the build context that the Dockerfiles install.
REQUIREMENTS: Final = "requirements.txt"
_PAGE: Final = "docs/training/packages.md"
# `name[extra]==version ; marker --hash=sha256:...`, the form in which uv and pip-tools lock.
_REQUIREMENT: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w, .-]+\])?==(?P<version>[^\s;@]+)(?:\s*;[^#]+?)?"
    r"(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})*)"
)
_TOLD: Final = 3


def with_packages(locked: Path, more: Path) -> str:
    """The text of an image's locked file with the packages of another one.

    In one file pip sees every conflict, and the Dockerfile is the same for all stacks: another Dockerfile
    would be another image and another run for stacks without such packages. Comments of the other file are
    left out, because they change no image.

    Raises:
        ValueError: If the other file is not there, is not locked with hashes or has other versions.
    """
    own = locked.read_text()
    try:
        requirements = dict(_lines(more.read_text("utf-8")))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot be read ({_reason(error)}); name a file as in {_PAGE}") from None
    if problems := [*_problems(requirements, _versions(own))]:
        rest = f"; and {len(problems) - _TOLD} more" if len(problems) > _TOLD else ""
        raise ValueError(f"{'; '.join(problems[:_TOLD])}{rest}; lock the file as in {_PAGE}")
    return "\n".join([own.rstrip("\n"), "# extraRequirements", *requirements.values(), ""])


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return str(error.strerror) if isinstance(error, OSError) else "it is no text"


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The requirements of a file on one line each, by the number of the line on which they begin."""
    number, pieces = 0, list[str]()
    for line_number, line in enumerate([*text.splitlines(), ""], start=1):
        content = re.sub(r"(^|\s)#.*", "", line).strip()
        number = number if pieces else line_number
        pieces.append(content.removesuffix("\\").strip())
        if not content.endswith("\\"):
            if requirement := " ".join(filter(None, pieces)):
                yield number, requirement
            pieces = []


def _problems(requirements: Mapping[int, str], own: Mapping[str, set[str]]) -> Iterator[str]:
    """The problems. They repeat no line that may hold the password of an index."""
    if not requirements:
        yield "there is no package in the file"
    for number, requirement in requirements.items():
        match = _REQUIREMENT.fullmatch(requirement)
        if requirement.startswith("-"):
            option = re.split(r"[\s=]", requirement)[0]
            yield f"line {number} has the option {option}, which is not for a locked file"
        elif not match:
            yield f"line {number} is not NAME==VERSION with --hash=sha256"
        elif not match["hashes"]:
            yield f"line {number}: {match['name']} has no --hash=sha256"
        elif match["version"] not in (versions := own.get(_normal(match["name"]), {match["version"]})):
            wanted = " or ".join(sorted(versions))
            yield f"line {number}: {match['name']} is {match['version']}, and the image has {wanted}"


def _versions(text: str) -> dict[str, set[str]]:
    """The versions in a locked file by the package's name. One name may have several, with markers."""
    versions: dict[str, set[str]] = {}
    for _, requirement in _lines(text):
        if match := _REQUIREMENT.fullmatch(requirement):
            versions.setdefault(_normal(match["name"]), set()).add(match["version"])
    return versions


def _normal(name: str) -> str:
    """The name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
