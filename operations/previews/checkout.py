"""The repository at the point where a merge request leaves the target branch."""

import io
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from operations.errors import OperationError


def merge_base(root: Path, target: str) -> str:
    """The commit at which the working tree's branch left `target`.

    Raises:
        OperationError: When git does not know it.
    """
    try:
        return _git(root, "merge-base", target, "HEAD").decode().strip()
    except OperationError as error:
        raise OperationError(
            f"{error}; fetch the target branch with its history first: git fetch origin BRANCH"
        ) from None


def head(root: Path) -> str:
    """The commit that is checked out."""
    return _git(root, "rev-parse", "HEAD").decode().strip()


def changed_files(root: Path, since: str) -> list[str]:
    """Files that differ between a commit and the working tree. A moved file has both paths."""
    listed = _git(root, "diff", "--name-only", "--no-renames", "-z", since).decode()
    added = _git(root, "ls-files", "--others", "--exclude-standard", "-z").decode()
    return sorted(filter(None, (listed + added).split("\0")))


@contextmanager
def exported(root: Path, commit: str) -> Generator[Path]:
    """Copies the files of a commit to a temporary folder."""
    archive = _git(root, "archive", "--format=tar", commit)
    with tempfile.TemporaryDirectory(prefix="target-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(folder, filter="data")
        yield Path(folder)


@contextmanager
def copied(root: Path) -> Generator[Path]:
    """Copies the working tree to a temporary folder: edited and new files too, no ignored ones."""
    listed = _git(root, "ls-files", "--cached", "--others", "--exclude-standard", "-z").decode()
    with tempfile.TemporaryDirectory(prefix="copy-") as folder:
        for name in filter(None, listed.split("\0")):
            # git lists deleted files too. A link to a folder is not a file.
            if (root / name).is_file():
                copy = Path(folder, name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, copy)
        yield Path(folder)


def _git(root: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False)
    if done.returncode:
        raise OperationError(f"git {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
