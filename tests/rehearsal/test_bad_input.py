"""What a person may type, or have lying about: one line says what is wrong and what to do."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.project import ROOT, known_stacks
from operations.__main__ import main
from operations.errors import OperationError
from operations.google.clients import Clients
from tests.checkout import copy_of_checkout
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN, put_into
from tests.operations.planned import planned_once

STACK = NEUTRAL
FIRST = known_stacks()[0]
FILE = "Pulumi.mine.yaml"
PROJECT = "--set=gcp:project=p12345"
REHEARSE = ("rehearsal", STACK, "--preview")
PREFLIGHT = (
    "operations",
    "preflight",
    "--stack",
    STACK,
    PROJECT,
    "--set=capacity.type=spot",
)
HERE = {name: text for name, text in os.environ.items() if not name.startswith(("GOOGLE_", "PULUMI_"))}
# The Makefile's: a program that cannot be run is passed over for one of the same name behind it.
HERE["PATH"] = HERE["PATH"].removesuffix(f":{ROOT / '.tools/bin'}")
# A program of these may mount what it likes, for itself alone.
ALONE = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c")


# One process that is told what is typed, line by line: to start one takes longer than what it does.
PROMPT = """
import contextlib, io, json, sys
from operations.__main__ import main as operations
from rehearsal.__main__ import main as rehearsal

for line in sys.stdin:
    said = io.StringIO()
    module, *words = json.loads(line)
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        status = {"operations": operations, "rehearsal": rehearsal}[module](words)
    print(json.dumps([status, said.getvalue()]), flush=True)
"""
Typed = Callable[..., tuple[int, str]]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project that a test may break."""
    copy = copy_of_checkout(tmp_path_factory.mktemp("checkout"))
    (copy / ".tools").symlink_to(ROOT / ".tools")
    put_into(copy)
    return copy


@pytest.fixture(scope="module")
def prompt_text(checkout: Path) -> Iterator[Typed]:
    """The exit status of what is typed and all that it prints, without a process of its own."""
    command, pipe = [sys.executable, "-c", PROMPT], subprocess.PIPE
    with subprocess.Popen(command, cwd=checkout, env=HERE, stdin=pipe, stdout=pipe, text=True) as process:
        into, out = process.stdin, process.stdout
        assert into and out

        def type_(*words: str) -> tuple[int, str]:
            print(json.dumps(words), file=into, flush=True)
            return tuple(json.loads(out.readline()))

        yield type_
        into.close()


@pytest.fixture(scope="module")
def prompt(prompt_text: Typed) -> Typed:
    """As `typed`, without a process of its own."""

    def type_(*words: str) -> tuple[int, str]:
        status, line = prompt_text(*words)
        assert len(line.splitlines()) == 1, line
        return status, line

    return type_


def typed(checkout: Path, *words: str, before: tuple[str, ...] = (), **environment: str) -> tuple[int, str]:
    """The exit status of `python -m WORDS` and the one line of its standard error."""
    done = subprocess.run(
        [*before, sys.executable, "-m", *words],
        cwd=checkout,
        env={**HERE, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return done.returncode, lines[0]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"- a list\n", "`config:` with keys and values below it is expected"),
        (b"config: text\n", "`config:` with keys and values below it is expected"),
        (b"config:\n  1: a number\n", "`config:` with keys and values below it is expected"),
        (b"config:\n\tgcp:project: p\n", r"line 2: found character '\\t' that cannot start any token"),
        (b"\x7fELF\x00\xff\xfe", "can't decode byte 0xff"),
        (b"config:\n  a:b: 1\n  a:c: 2\n  a:b: 3\n", "line 2: a:b stands twice"),
        (b"config:\n  a:b: 2026-99-99\n", "month must be in 1..12"),
        (b"config:\n  a:b: &c [*c]\n", "Circular reference"),
        (b"config:\n  a:b: 1\n  a:c:\n    secure: 5\n", "a:c: `secure:` is followed by what `pulumi config"),
        (b"config:\n  a:b: " + b"[" * 3000, "nested too deeply"),
        (None, "Is a directory"),
    ],
)
def test_a_stack_file_that_is_none(
    checkout: Path, prompt: Typed, content: bytes | None, problem: str
) -> None:
    (checkout / FILE).mkdir() if content is None else (checkout / FILE).write_bytes(content)
    remedy = rf"{FILE} cannot be read \(.*{problem}.*\); `git diff {FILE}` says what was changed"
    try:
        for words, status in ((("rehearsal", "mine"), 1), (("operations", "preflight", "--stack=mine"), 2)):
            code, line = prompt(*words)
            assert (code, bool(re.search(remedy, line))) == (status, True), line
    finally:
        (checkout / FILE).rmdir() if content is None else (checkout / FILE).unlink()


OF_MINE = ("rehearsal", "mine", "--preview")


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        (OF_MINE, "llm-stacks:hfToken", "hf_of_a_test"),
        (OF_MINE, "gcp:accessToken", "ya29.of-a-test"),
        (OF_MINE, "gcp:credentials", "{a: 1}"),
        # It starts a rehearsal.
        (("operations", "cost", "--stack=mine", PROJECT), "llm-stacks:hfToken", "hf_of_a_test"),
    ],
)
def test_a_secret_in_plain_text_is_accepted_by_no_rehearsal_and_no_preview(
    checkout: Path, prompt_text: Typed, words: tuple[str, ...], key: str, value: str
) -> None:
    name = key.removeprefix("llm-stacks:")
    file = (checkout / f"Pulumi.{STACK}.yaml").read_text()
    (checkout / FILE).write_text(f"{file}  {key}: {value}\n")
    try:
        status, text = prompt_text(*words)
        assert status and value not in text
        assert f"{name}: is stored in plain text; remove it from the stack file, then" in text
        assert f"`pulumi config set --secret {name}`" in text
    finally:
        (checkout / FILE).unlink()


@pytest.mark.parametrize("name", ["a5-ray", "", "neutral\nx", "\udcff"])
def test_a_stack_name_that_is_none(prompt: Typed, name: str) -> None:
    for words, status in (
        (("rehearsal", name, "--preview"), 1),
        (("operations", "cost", f"--stack={name}"), 2),
    ):
        code, line = prompt(*words)
        assert (code, bool(re.search(rf"there is no stack .*; known: {FIRST}, ", line))) == (
            status,
            True,
        ), line


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("#!/bin/sh\nexit 3\n", r"/pulumi does not run \(.* exit status 3.*\); https://"),
        ("no program\0", r"/pulumi does not run \(.*Exec format error.*\); https://"),
        ("#!/bin/sh\necho hello\n", "/pulumi does not say which version it is, so it is no pulumi; https://"),
        (
            "#!/bin/sh\necho v3.100.0\n",
            r"/pulumi is version 3\.100\.0, and 3\.\d+\.\d+ or newer is needed; https://",
        ),
    ],
)
def test_a_pulumi_on_the_path_that_is_broken_or_too_old(program: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pulumi").write_text(program)
    (tmp_path / "pulumi").chmod(0o755)
    code, line = typed(ROOT, "engine", PATH=f"{tmp_path}:{HERE['PATH']}")
    assert (code, bool(re.search(message, line))) == (1, True), line


@pytest.mark.slow
def test_an_engine_of_an_earlier_run_that_is_broken(checkout: Path) -> None:
    (checkout / ".tools").unlink()
    (checkout / ".tools" / "bin").mkdir(parents=True)
    (checkout / ".tools" / "bin" / "pulumi").write_bytes(b"half of it")
    (checkout / ".tools" / "bin" / "pulumi").chmod(0o755)
    try:
        status, line = typed(checkout, *REHEARSE)
    finally:
        shutil.rmtree(checkout / ".tools")
        (checkout / ".tools").symlink_to(ROOT / ".tools")
    assert status == 1
    assert re.search(r"/\.tools/bin/pulumi does not run \(.*\); remove \.tools and try again$", line)


@pytest.fixture(scope="module")
def mounts() -> None:
    """Whether this user may mount something for a program of theirs."""
    if (
        not shutil.which("unshare")
        or subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode
    ):
        pytest.skip("no user namespaces here")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--preview",),
            r"/\.rehearsal.*: Read-only file system; run it from a copy of the project that can be",
        ),
        pytest.param(
            ("--json",),
            r"\.build/ cannot be written \(Read-only file system\): run from a copy of the project",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_read_only_checkout(checkout: Path, mounts: None, options: tuple[str, ...], message: str) -> None:
    read_only = 'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$0" "$@"'
    status, line = typed(checkout, "rehearsal", NEUTRAL_RUN, *options, before=(*ALONE, read_only))
    assert (status, bool(re.search(message, line))) == (1, True), line


@pytest.mark.slow
def test_a_full_disk(checkout: Path, mounts: None) -> None:
    (checkout / ".rehearsal").mkdir(exist_ok=True)
    full = f'mount -t tmpfs -o size=4k none .rehearsal && mkdir .rehearsal/{STACK} && exec "$0" "$@"'
    status, line = typed(checkout, *REHEARSE, before=(*ALONE, full))
    assert status == 1
    assert re.search("No space left on device; free some space, in .rehearsal/ and in TMPDIR$", line)


def test_credentials_that_are_missing(checkout: Path, tmp_path: Path) -> None:
    nowhere = {"HOME": str(tmp_path), "CLOUDSDK_CONFIG": str(tmp_path), "NO_GCE_CHECK": "true"}
    status, line = typed(
        checkout, *PREFLIGHT, before=("env", *(f"{name}={it}" for name, it in nowhere.items()))
    )
    assert status == 2
    assert "there are no Application Default Credentials: run `gcloud auth application-default login`" in line


@pytest.mark.parametrize("content", [None, b"{", b"[]", b'{"type": "service_account", "private_key": "x"}'])
def test_credentials_in_a_file_that_is_broken(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if content is not None:
        (tmp_path / "mine.json").write_bytes(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "mine.json"))
    message = r"^the file of the Application Default Credentials cannot be used \(.*\): run `gcloud[^\n]*$"
    with pytest.raises(OperationError, match=message):
        Clients("my-project")


def test_credentials_of_a_machine_that_is_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = ("type", "client_id", "client_secret", "refresh_token")
    (tmp_path / "mine.json").write_text(json.dumps({**dict.fromkeys(kinds, "x"), "type": "authorized_user"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "mine.json"))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with planned_once():
        assert main(["preflight", "--stack", STACK]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Google cannot be reached for a token; is this machine offline?")
