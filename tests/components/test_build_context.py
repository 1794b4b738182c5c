"""What is sent to be built, and that it is the same wherever it is packed."""

import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from components.build_context import BuildContext


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(files: Mapping[str, str], folder: str = "context") -> Path:
    for path, text in {"Dockerfile": "FROM scratch\n", **files}.items():
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Path(folder)


def sent(files: Mapping[str, str]) -> list[str]:
    return BuildContext(write(files)).paths


def test_a_folder_without_a_dockerfile_is_refused(tmp_path: Path) -> None:
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
    archives = [BuildContext(Path(folder)).archive(folder) for folder in ("context", "elsewhere")]
    assert archives[0].read_bytes() == archives[1].read_bytes()
    # Where gzip would note the time, which within this test is the same second.
    assert archives[0].read_bytes()[4:8] == bytes(4)
    assert BuildContext(Path("context")).digest == BuildContext(Path("elsewhere")).digest


def test_the_archive_lies_at_a_path_relative_to_the_project() -> None:
    assert BuildContext(write({})).archive("name").as_posix() == ".build/name.tar.gz"


def test_the_archive_unpacks_to_the_files_that_were_sent() -> None:
    folder = write({"run.sh": "echo\n", "train.py": "print()\n", ".dockerignore": "*.md\n", "README.md": ""})
    (folder / "run.sh").chmod(0o755)
    (folder / "link.py").symlink_to("train.py")
    with tarfile.open(BuildContext(folder).archive("name")) as archive:
        members = {member.name: member for member in archive.getmembers()}
        train = archive.extractfile("train.py")
        assert train and train.read() == b"print()\n"
    assert list(members) == [".dockerignore", "Dockerfile", "link.py", "run.sh", "train.py"]
    assert members["run.sh"].mode == 0o755
    assert members["train.py"].mode == 0o644
    assert members["link.py"].linkname == "train.py"


def test_every_change_that_docker_would_see_is_another_digest() -> None:
    folder = write({"train.py": "print()\n"})
    digests = [BuildContext(folder).digest]
    (folder / "train.py").write_text("print(1)\n")
    digests.append(BuildContext(folder).digest)
    (folder / "train.py").chmod(0o755)
    digests.append(BuildContext(folder).digest)
    (folder / "train.py").rename(folder / "main.py")
    digests.append(BuildContext(folder).digest)
    (folder / "Dockerfile").write_text("FROM busybox\n")
    digests.append(BuildContext(folder).digest)
    assert len(set(digests)) == 5


def test_running_the_code_does_not_change_the_digest() -> None:
    folder = write({"train.py": "print()\n"})
    digest = BuildContext(folder).digest
    write({"__pycache__/train.pyc": "1", "package/__pycache__/x.pyc": "2"})
    assert BuildContext(folder).digest == digest


# The examples of https://docs.docker.com/build/concepts/context/#dockerignore-files, and their borders.
@pytest.mark.parametrize(
    ("ignore", "ignored", "kept"),
    [
        ("# temp\n*/temp*", ["a/temporary.txt", "a/temp/x", "a/temp"], ["temp", "a/b/temp"]),
        ("*/*/temp*", ["a/b/temporary.txt"], ["a/temp", "a/b/c/temp"]),
        ("temp?", ["tempa", "tempb"], ["temp", "tempab"]),
        ("**/*.go", ["a.go", "a/b/c.go"], ["a.gone", "a/go"]),
        ("*.md\n!README.md", ["NOTES.md"], ["README.md", "a/NOTES.md"]),
        ("*.md\n!README*.md\nREADME-secret.md", ["README-secret.md"], ["README.md"]),
        ("*.md\nREADME-secret.md\n!README*.md", ["NOTES.md"], ["README-secret.md"]),
        ("/data/", ["data/a", "data/b/c"], ["a/data", "database"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "b/a/z"]),
        ("data\n!data/keep.txt", ["data/a", "data/b/keep.txt"], ["data/keep.txt"]),
        ("[ab].txt\nx.y", ["a.txt", "b.txt", "x.y"], ["c.txt", "xzy"]),
        ("./out\n\n  spaced.txt  ", ["out/a", "spaced.txt"], ["in/out"]),
        ("*", ["a", "b/c"], ["Dockerfile", ".dockerignore"]),
    ],
)
def test_the_ignore_file_is_read_as_docker_reads_it(ignore: str, ignored: list[str], kept: list[str]) -> None:
    created = [path for path in (*ignored, *kept) if path not in ("a/temp", "Dockerfile", ".dockerignore")]
    paths = sent({**{path: path for path in created}, ".dockerignore": ignore})
    assert not set(ignored) & set(paths)
    assert set(kept) <= {*paths, "a/temp"}
