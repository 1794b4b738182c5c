"""What is sent to be built, and that it is the same wherever it is packed."""

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from components.cloud_build.context import BuildContext


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(files: Mapping[str, str], folder: str = "context") -> Path:
    for path, text in {"Dockerfile": "FROM scratch\n", **files}.items():
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Path(folder)


def sent(folder: Path) -> list[tarfile.TarInfo]:
    with tarfile.open(BuildContext(folder).write("name")) as archive:
        return archive.getmembers()


def test_a_folder_without_a_dockerfile_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no Dockerfile"):
        BuildContext(tmp_path)


def test_equal_files_give_equal_bytes_whatever_their_times_and_owners() -> None:
    files = {"train.py": "print()\n", "recipes/a.yaml": "a: 1\n", "b.txt": "b\n"}
    write(files)
    write(dict(reversed(files.items())), "elsewhere")
    for path in Path("elsewhere").rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    Path("elsewhere/b.txt").chmod(0o600)
    os.link("elsewhere/b.txt", "hard link outside")
    contexts = [BuildContext(Path(folder)) for folder in ("context", "elsewhere")]
    archives = [context.write(f"archive-{number}").read_bytes() for number, context in enumerate(contexts)]
    assert archives[0] == archives[1]
    # Where gzip would note the time, which within this test is the same second.
    assert archives[0][4:8] == bytes(4)
    assert contexts[0].digest == contexts[1].digest


def test_the_archive_unpacks_to_the_files_that_were_sent() -> None:
    files = {"run.sh": "echo\n", "a/train.py": "print()\n", ".dockerignore": "*.md\n", "README.md": ""}
    folder = write(files)
    (folder / "run.sh").chmod(0o755)
    (folder / "link.py").symlink_to("a/train.py")
    members = {member.name: member for member in sent(folder)}
    assert list(members) == [".dockerignore", "Dockerfile", "a/train.py", "link.py", "run.sh"]
    assert members["run.sh"].mode == 0o755
    assert members["a/train.py"].mode == 0o644
    assert members["link.py"].linkname == "a/train.py"


def test_every_change_that_docker_would_see_is_another_digest_and_a_cache_is_none() -> None:
    folder = write({"train.py": "print()\n"})
    digests = [BuildContext(folder).digest]
    write({"__pycache__/train.pyc": "1", "package/__pycache__/x.pyc": "2"})
    assert BuildContext(folder).digest == digests[0]
    (folder / "train.py").write_text("print(1)\n")
    digests.append(BuildContext(folder).digest)
    (folder / "train.py").chmod(0o755)
    digests.append(BuildContext(folder).digest)
    (folder / "train.py").rename(folder / "main.py")
    digests.append(BuildContext(folder).digest)
    (folder / "Dockerfile").write_text("FROM busybox\n")
    digests.append(BuildContext(folder).digest)
    assert len(set(digests)) == 5


# https://docs.docker.com/build/concepts/context/#dockerignore-files
@pytest.mark.parametrize(
    ("ignore", "kept"),
    [
        ("# *\n*/temp*\n**/*.go\n", ["temp", "x.md"]),
        ("*\n!x.md\n", ["x.md"]),
        ("a\n!a/b.go\nx.md\n", ["a/b.go", "temp"]),
    ],
)
def test_the_ignore_file_is_read_as_docker_reads_it(ignore: str, kept: list[str]) -> None:
    folder = write(dict.fromkeys(("temp", "x.md", "a/temp", "a/b.go"), "") | {".dockerignore": ignore})
    assert [member.name for member in sent(folder)] == [".dockerignore", "Dockerfile", *kept]
