"""`python -m rehearsal` as a person runs it."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from engine import project
from engine.lock import held
from rehearsal import lifecycle
from rehearsal.__main__ import main
from rehearsal.fakes.cloud import FakeCloud
from rehearsal.running_pods import __main__ as run_command
from rehearsal.workspace import folder_of_its_own
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN

STACK = NEUTRAL


# The command with its results elsewhere, so that it is in nobody's way.
ELSEWHERE = (
    "import pathlib, sys; from rehearsal import lifecycle; "
    "lifecycle.RESULTS = pathlib.Path(sys.argv.pop(1)); "
    "from rehearsal.__main__ import main; from tests.neutral_stacks import neutral_stacks\n"
    "with neutral_stacks(): sys.exit(main())"
)


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the results. The command's signal handlers do not outlive the test."""
    monkeypatch.setattr(lifecycle, "RESULTS", tmp_path / "results")
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield tmp_path / "results" / STACK
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def under_way(tmp_path: Path, results: Path) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal in a process and a temporary directory of its own, in the middle of its `up`."""
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", ELSEWHERE, str(results.parent), STACK, "--verbose"],
        cwd=project.ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdout=PIPE,
        stderr=PIPE,
        text=True,
    )
    read_until(process, f"{STACK}-cluster creating")
    yield process
    process.kill()
    process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {process.communicate()[1]}")


def children(process: subprocess.Popen[str]) -> list[str]:
    command = ["pgrep", "-P", str(process.pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()


def exists(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a5-ray"], r"there is no stack a5-ray; known: .*neutral"),
        ([STACK, "--set", "capacity.type"], "write key=value"),
        ([STACK, "--set", "scenario=nowhere"], "nowhere"),
        ([STACK, "--json", "--base", "/nope"], "--base /nope: there is no Pulumi.yaml; name a checkout"),
        ([STACK, "--base", str(project.ROOT)], "--base belongs to --json"),
        ([STACK, "--preview", "--fail-at", "neutral-buckt"], "did you mean neutral-bucket"),
        (
            [STACK, "--preview", "--stockout", "spot"],
            "--stockout spot: the stack has no list of capacities; see capacity.type",
        ),
        (
            [STACK, "--preview", "--fail-at", "neutral-bucket:quotas"],
            "no such kind of fault; did you mean quota",
        ),
        (
            [STACK, "--preview", "--fail-at", "neutral-build:partial"],
            "its provider keeps nothing that failed; take another kind",
        ),
    ],
)
def test_what_there_is_not_is_rejected_in_words(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert re.match(f"(?s)rehearsal {arguments[0]}: .*{message}", error)
    assert "Traceback" not in error


def test_the_value_of_an_override_may_hold_further_equal_signs() -> None:
    assert project.parse_override("a.b=c=d") == ("a.b", "c=d")


@pytest.mark.parametrize("stack", ["a4-ray"])
def test_the_rehearsal_of_the_readme_closes_with_its_counts_and_leaves_its_results(
    stack: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = results.with_name(stack)
    assert main([stack]) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert tuple(line.rstrip("─ ") for line in lines if line.endswith("──")) == lifecycle.PHASES
    closing = rf"rehearsal {stack}: (\d+) created, 0 changed on the second preview, (\d+) destroyed, 0 left"
    match = re.fullmatch(closing, last)
    plan = json.loads((results / "plan.json").read_text())
    assert match and int(match[1]) == int(match[2]) == len(plan["resources"])
    # The first line that a reader of the README compares with their own.
    assert f"\n{last}\n" in (project.ROOT / "README.md").read_text()
    assert {path.name for path in results.iterdir()} == {"plan.json", "state.json"}


@pytest.mark.parametrize("stack", ["a4-ray"])
def test_the_clock_says_when_a_list_of_capacities_comes_to_one_that_has_machines(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ('capacity.type=["reservation", "flexStart", "spot"]', "capacity.zone=us-central1-b")
    options = ["--stockout=reservation", "--stockout=flexStart", *(f"--set={text}" for text in settings)]
    assert main([stack, "--preview", "--clock", *options]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("nodes, ")]
    assert lines == [
        "nodes, after 0 min: reservation has no machines, gives up after 30 min",
        "nodes, after 30 min: flexStart has no machines, gives up after 240 min",
        "nodes, after 270 min: spot has machines",
    ]


@pytest.mark.parametrize("stack", ["l4-kueue"])
def test_node_pools_of_several_capacities_are_a_list_too(
    stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ['--set=capacity.type=["onDemand", "flexStart"]', "--set=hfToken=hf_none"]
    assert main([stack, "--preview", "--stockout=onDemand", *settings]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("nodes, ")]
    assert lines[-1] == "nodes, after 30 min: flexStart has machines"


def test_a_preview_stops_after_the_plan_and_the_clock_says_what_decides_how_long_it_takes(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([STACK, "--preview", "--clock"]) == 0
    output = capsys.readouterr().out.splitlines()
    assert "to create, nothing done" in output[-1]
    assert {path.name for path in results.iterdir()} == {"plan.json"}
    lines = [line for line in output if line.startswith("critical path of ")]
    assert [line.partition(",")[0].removeprefix("critical path of ") for line in lines] == [
        "up",
        "destroy",
    ]
    assert " > neutral-build (12) > " in lines[0] and " > neutral-cluster (4) > " in lines[1]


def test_what_the_program_warns_of_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([STACK, "--preview", "--set", "capacity.type=spot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (warned,) = [line for line in lines if line.startswith("warning: ")]
    assert "capacity.type spot: when Google takes a node back" in warned


def test_a_fault_at_creation_update_and_deletion_is_shown_and_recovered_from(
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = "neutral-run-bucket"
    assert main([NEUTRAL_RUN, "--fail-at", name]) == 0
    output = capsys.readouterr().out
    for operation, command in (("creation", "up"), ("update", "up"), ("deletion", "destroy")):
        failing = output.partition(f"{command} that fails at the {operation} of {name} ")[2]
        assert f"should: {name}: the rehearsal lets the {operation} of {name} fail" in failing
    assert f"what failed at {name} went through the second time" in output
    assert "0 changed on the second preview" in output.splitlines()[-1]


@pytest.mark.slow
def test_what_is_made_without_an_answer_is_left_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([STACK, "--fail-at", "neutral-bucket:orphan"]) == 0
    output = capsys.readouterr().out
    left = "so left: gcp:storage/bucket:Bucket neutral-bucket-[0-9a-f]{7}; `python -m operations leftovers"
    assert re.search(left, output)
    assert output.count("failed as it should: neutral-bucket: ") == 3


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fill_the_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/a-file")

    monkeypatch.setattr(run_command, "_run", fill_the_disk)
    monkeypatch.setattr(run_command.network, "missing", lambda: "")
    monkeypatch.setattr(lifecycle.Lifecycle, "run", fill_the_disk)
    advice = "/tmp/a-file: No space left on device; free some space, in .rehearsal/ and in TMPDIR\n"
    assert main([STACK]) == 1
    assert run_command.main(STACK) == 1
    assert capsys.readouterr().err == f"rehearsal neutral: {advice}rehearse-run neutral: {advice}"


@pytest.mark.slow
def test_what_is_left_over_is_named_and_makes_the_rehearsal_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    remove = FakeCloud.remove
    sticky = "gcp:storage/bucket:Bucket"
    monkeypatch.setattr(FakeCloud, "remove", lambda cloud, item: item.type == sticky or remove(cloud, item))
    assert main([STACK]) == 1
    output = capsys.readouterr().out
    assert "left: gcp:storage/bucket:Bucket neutral-bucket-" in output
    assert not output.splitlines()[-1].endswith(" 0 left")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_rehearsal_leaves_no_file_no_process_and_no_lock(
    under_way: subprocess.Popen[str], number: signal.Signals, tmp_path: Path, results: Path
) -> None:
    engines = children(under_way)
    assert engines and list((tmp_path / "tmp").iterdir())
    under_way.send_signal(number)
    _, errors = under_way.communicate(timeout=60)
    assert under_way.returncode == 130
    assert errors == "rehearsal neutral: interrupted; nothing is left behind\n"
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not any(exists(pid) for pid in engines)
    with held(results, pytest.fail):
        pass


@pytest.mark.slow
def test_an_engine_that_is_killed_is_said_to_have_been(under_way: subprocess.Popen[str]) -> None:
    for engine in children(under_way):
        os.kill(int(engine), signal.SIGKILL)
    _, errors = under_way.communicate(timeout=60)
    assert under_way.returncode == 1
    assert re.fullmatch("rehearsal neutral: pulumi up was killed by SIGKILL, as the system does .*\n", errors)


def test_what_a_killed_rehearsal_leaves_is_swept_by_the_next_and_nothing_else_is(
    under_way: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp" / "rehearsal-of-somebody").mkdir()
    with folder_of_its_own("other"):
        pass
    assert len(list((tmp_path / "tmp").iterdir())) == 2  # what is under way is held
    orphans = children(under_way)
    under_way.kill()
    under_way.wait()
    with folder_of_its_own("other") as folder:
        assert {path.name for path in (tmp_path / "tmp").iterdir()} == {"rehearsal-of-somebody", folder.name}
    for orphan in filter(exists, orphans):
        os.kill(int(orphan), signal.SIGKILL)


def test_processes_that_are_written_down_in_what_is_swept_are_ended_if_they_are_still_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "llm-stacks-rehearsal-control-plane-x"
    left.mkdir()
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*sleep, f"--data-dir={left}"]) as its, subprocess.Popen(sleep) as another:
        for name, process in (("etcd", its), ("kwok", another)):
            (left / f"{name}.pid").write_text(f"{process.pid}\n")
        try:
            with folder_of_its_own("y"):
                assert not left.exists()
            assert its.wait(60) == -signal.SIGKILL
            assert another.poll() is None
        finally:
            its.kill()
            another.kill()


def test_a_second_rehearsal_of_the_stack_is_rejected(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with held(results, pytest.fail):
        assert main([STACK]) == 1
    assert "a rehearsal of neutral is under way" in capsys.readouterr().err
