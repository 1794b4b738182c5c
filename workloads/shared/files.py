"""The text files of a run's directory, in a bucket or on a disk."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol
from uuid import uuid4

from shared.errors import InputError, one_line

if TYPE_CHECKING:
    # Only the process that trains has the library.
    from shared.exporter import Exporter

# Cloud Storage accepts about one write a second to one object.
SECONDS_BETWEEN_WRITES = 1.0
# Bytes of a file of records or lines. A run of a hundred thousand logged steps has less.
MOST_BYTES = 2**26
# Bytes of a record's JSON, whose objects take some forty times as much memory.
MOST_JSON_BYTES = 2**23
# A run's files have a few levels. Far below the depth at which Python's functions end with an error.
MOST_LEVELS = 100
# No writer takes as long as this, and clocks of machines that share a disk differ by less.
SECONDS_UNTIL_STALE = 3600.0

# Size in bytes, and checksum.
FileSum = dict[str, int | str]


class TextFiles(Protocol):
    """The text files of a run. Each trainer's RunFolder or Folder implements it."""

    def read_text(self, name: str) -> str | None:
        """The file's text, or None when there is no such file.

        Raises ValueError when it is no text, or has more than MOST_BYTES.
        """
        ...

    def write_text(self, name: str, text: str, *, patient: bool = True) -> None:
        """Replace a file. No reader sees it half written. A write that is repeated soon is not `patient`."""
        ...


class MetricsLog:
    """`metrics.jsonl` of a run. Each write replaces it, since an object in a bucket cannot be appended to."""

    FILE = "metrics.jsonl"

    def __init__(
        self,
        files: TextFiles,
        from_step: int,
        clock: Callable[[], float] = time.monotonic,
        exporter: "Exporter | None" = None,
    ):
        """Keep an earlier process's lines up to `from_step`. Later steps will be logged again.

        With an `exporter` Prometheus sees the newest value of everything that is logged.
        """
        self._files, self._clock, self._exporter = files, clock, exporter
        try:
            earlier = (files.read_text(self.FILE) or "").splitlines()
        except ValueError as error:
            print(f"{self.FILE} is no log, it begins anew: {one_line(error)}", flush=True)
            earlier = []
        steps = [_step(line) for line in earlier]
        if broken := steps.count(None):
            print(f"{self.FILE} has {broken} lines that are not whole: they are left out", flush=True)
        self._lines = [
            line for line, step in zip(earlier, steps, strict=True) if step is not None and step <= from_step
        ]
        self._written = float("-inf")

    def append(self, values: dict[str, float]) -> None:
        """Add a line. If the last write was less than a second ago, the next line takes it along."""
        # JSON has no NaN.
        known = {key: value if math.isfinite(value) else None for key, value in values.items()}
        self._lines.append(json.dumps(known))
        if self._exporter:
            self._exporter.show(values)
        if self._clock() - self._written >= SECONDS_BETWEEN_WRITES:
            self.flush()

    def flush(self) -> None:
        """Write all lines so far."""
        write_or_say(self._files, self.FILE, "".join(f"{line}\n" for line in self._lines))
        self._written = self._clock()


@contextmanager
def written_whole(target: Path) -> Generator[Path]:
    """A path beside `target` to write to. At the end of the block the file there takes `target`'s place.

    The path is unique, since several nodes that share a disk may write the same file at once. After an
    exception the file is removed.
    """
    part = target.with_name(f"{target.name}.{uuid4().hex}.part")
    try:
        yield part
        part.replace(target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def remove_stale_parts(parts: Iterable[Path]) -> None:
    """Delete those files of `written_whole` whose writer must have been killed: they are an hour old."""
    for part in parts:
        # Another node may delete it at the same time.
        with suppress(OSError):
            if part.is_file() and time.time() - part.stat().st_mtime > SECONDS_UNTIL_STALE:
                part.unlink()


def _step(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def bounded_text(stream: IO[bytes]) -> str:
    """The text of a file that somebody else may have written.

    Raises ValueError when it is none, or has more than MOST_BYTES.
    """
    content = bytearray()
    # An object that is stored compressed says a smaller size than it has.
    while piece := stream.read(2**20):
        content += piece
        if len(content) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES >> 20} MiB")
    return content.decode()


def read_json(
    files: TextFiles, name: str, *, texts: Collection[str] = (), numbers: Collection[str] = ()
) -> dict[str, Any]:
    """The content of a JSON file of the run, empty when there is none.

    Args:
        texts: Keys that have a text, if they are there.
        numbers: Keys that have a finite number that is not negative, if they are there.

    Raises InputError when it is half written, or has another form. A bucket may have any.
    """
    try:
        content = parsed_json(files.read_text(name) or "{}")
        is_right = isinstance(content, dict)
    except ValueError:
        content, is_right = {}, False
    is_right = is_right and all(isinstance(content.get(key), str | None) for key in texts)
    if not is_right or not all(_is_amount(content.get(key, 0)) for key in numbers):
        raise InputError(
            f"{name} in the run's folder is damaged: restore it, or delete it and the run writes it anew"
        )
    return content


def parsed_json(text: str) -> Any:
    """The value of a JSON text that somebody else may have written.

    Raises ValueError when it is none, or has more than MOST_JSON_BYTES or MOST_LEVELS.
    """
    if len(text) > MOST_JSON_BYTES:
        raise ValueError(f"it has more than {MOST_JSON_BYTES >> 20} MiB")
    try:
        value = json.loads(text)
    except RecursionError:
        value = None
    if value is None or not _can_be_shown(value, MOST_LEVELS):
        raise ValueError("it is nested too deeply, or empty")
    return value


def _can_be_shown(tree: Any, levels: int) -> bool:
    """Whether a value has at most so many levels. Raises ValueError when a text has half of a character."""
    if isinstance(tree, str):
        tree.encode()
    if not isinstance(tree, dict | list):
        return True
    parts = (*tree, *tree.values()) if isinstance(tree, dict) else tree
    return levels > 0 and all(_can_be_shown(part, levels - 1) for part in parts)


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value < 1e15


def write_or_say(files: TextFiles, name: str, text: str) -> None:
    """Replace a file that is written again soon. A failure is printed, and the next write makes up for it."""
    try:
        files.write_text(name, text, patient=False)
    except OSError as error:
        print(f"{name} cannot be written: {one_line(error)}", flush=True)


def differences(old: Any, new: Any, key: str = "") -> list[str]:
    """The dotted keys at which two records of a run differ, as a recipe's author writes them."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = []
        for part in {*old, *new}:
            names += differences(old.get(part), new.get(part), f"{key}.{part}".lstrip("."))
        return names
    return [] if old == new else [key.removeprefix("recipe.").removeprefix("maxtext.")]


def file_sum(path: Path) -> FileSum:
    """Size and checksum of a local file."""
    with path.open("rb") as file:
        return {"size": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def size_of(saved: Any) -> Any:
    """The size of a file in a checkpoint's list. An earlier version listed sizes alone."""
    return saved.get("size") if isinstance(saved, dict) else saved
