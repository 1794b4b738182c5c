"""Downloads a program and checks it against the digest that its publisher puts beside it."""

import hashlib
import io
import tarfile
from pathlib import PurePosixPath
from typing import Final

import requests

from engine.errors import EngineError

# Seconds: for the connection, which may hang where there is no way out, and between two parts of the answer.
_TIMEOUT: Final = (5.0, 30.0)


def fetch(address: str) -> bytes:
    """A published file.

    Args:
        address: `https://HOST/FILE`, or `https://HOST/ARCHIVE.tar.gz#FILE` for a file of an archive.

    Raises:
        RequestException: When there is no such file, or no digest of it, or no way to the publisher.
        EngineError: When the file is not the one that the digest is of.
    """
    url, _, member = address.partition("#")
    content = _get(url).content
    if hashlib.sha256(content).hexdigest() != _digest(url):
        raise EngineError(f"{url} is not what its publisher released: the SHA-256 digest differs")
    if not member:
        return content
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for each in archive:
            file = archive.extractfile(each)
            if file and PurePosixPath(each.name).name == member:
                return file.read()
    raise EngineError(f"{url} has no file {member}")


def _digest(url: str) -> str:
    """What Kubernetes puts into a file of its own, etcd into a list of all files of a release."""
    own = requests.get(f"{url}.sha256", timeout=_TIMEOUT)
    if own.ok:
        return own.text.strip()
    folder, _, name = url.rpartition("/")
    for line in _get(f"{folder}/SHA256SUMS").text.splitlines():
        digest, _, listed = line.partition("  ")
        if listed == name:
            return digest
    raise requests.RequestException(f"{folder}/SHA256SUMS does not list {name}")


def _get(url: str) -> requests.Response:
    answer = requests.get(url, timeout=_TIMEOUT)
    answer.raise_for_status()
    return answer
