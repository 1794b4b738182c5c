"""What to do about the errors of a `destroy`, which by default runs no program that could say it."""

from pathlib import Path

import pytest

from components.base.remedy import DESTROY_ALL, KEEP_BUCKET
from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests.operations.conftest import Command
from tests.rehearsal.small import SETTINGS, Small

IN_USE = (
    "googleapi: Error 400: The network resource 'projects/p/global/networks/n' is already being used by "
    "'projects/p/regions/r/addresses/serverless-1', resourceInUseByAnotherResource"
)
SLOW = "timeout while waiting for state to become 'DONE' (last state: 'RUNNING', timeout: 20m0s)"


@pytest.fixture
def output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a `destroy` printed that failed at three resources."""
    monkeypatch.setenv("PULUMI_CONTINUE_ON_ERROR", "true")
    lines: list[str] = []
    with Rehearsal("small", SETTINGS, Small(), progress=lines.append) as rehearsal:
        rehearsal.up()
        lines.clear()
        for name, text in (("network", IN_USE), ("cluster", SLOW), ("bucket", "gone fishing")):
            rehearsal.faults.add([name], text, at="deletion")
        while rehearsal.faults.pending:
            with pytest.raises(RehearsalError):
                rehearsal.destroy()
    file = tmp_path / "destroy.log"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_each_error_of_a_destroy_is_answered_with_what_to_do(output: Path, command: Command) -> None:
    ran = command("explain", "--stack", "small", str(output))
    answers = dict(line.split(": ", 1) for line in ran.out.splitlines())
    assert answers["network"].startswith("something still uses it")
    assert "`pulumi destroy --refresh` looks first" in answers["cluster"]
    assert answers["bucket"].startswith("nothing is known about this error") and "gone fishing" in ran.out
    assert ran.status == 1


def test_the_refusal_to_destroy_a_protected_bucket_is_answered_with_both_ways_out(
    tmp_path: Path, command: Command
) -> None:
    urn = "urn:pulumi:mine::p::c:Bucket$gcp:storage/bucket:Bucket::mine-bucket"
    file = tmp_path / "destroy.log"
    file.write_text(
        "Previewing destroy (mine):\n\nDiagnostics:\n"
        "  pulumi:pulumi:Stack (p-mine):\n    error: preview failed\n\n"
        "  gcp:storage:Bucket (mine-bucket):\n"
        f'    error: Preview failed: resource "{urn}" cannot be deleted\n'
        "    because it is protected. To unprotect the resource, either remove the `protect` flag, or use:\n"
        f"    `pulumi state unprotect '{urn}'`\n\nResources:\n    - 37 to delete\n    2 errored\n"
    )
    ran = command("explain", "--stack", "mine", str(file))
    assert (ran.status, len(ran.out.splitlines())) == (0, 1)
    assert ran.out.startswith("mine-bucket: nothing was changed")
    assert DESTROY_ALL in ran.out and KEEP_BUCKET in ran.out


def test_colours_and_the_warnings_of_an_up_are_passed_over(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "up.log"
    file.write_text(
        "Updating (small):\n\nDiagnostics:\n  pulumi:pulumi:Stack (p-small):\n    warning: look out\n\n"
        f"  gcp:compute:Network (network):\n    \x1b[31merror: \x1b[0m{SLOW}\n    warning: it may be done\n"
    )
    ran = command("explain", "--stack", "small", str(file))
    assert ran.status == 0
    assert ran.out.startswith("network: it may be done all the same: `pulumi up --refresh`")
    assert len(ran.out.splitlines()) == 1


def test_a_file_without_errors_is_not_taken_for_good_news(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "empty.log"
    file.touch()
    ran = command("explain", "--stack", "small", str(file))
    assert ran.status == 2 and "give the whole output of `pulumi`" in ran.err
    assert "cannot be read" in command("explain", "--stack", "small", str(tmp_path / "none")).err


def test_what_a_provider_said_cannot_write_to_the_terminal(tmp_path: Path, command: Command) -> None:
    file = tmp_path / "up.log"
    file.write_text(
        "Updating (small):\n\nDiagnostics:\n  gcp:compute:Network (network):\n"
        "    error: gone\x1b]0;title\x07\u202e\n"
    )
    printed = command("explain", "--stack", "small", str(file)).out.rstrip("\n")
    assert printed.isprintable() and printed.endswith("gone\\x1b]0;title\\x07\\u202e")
