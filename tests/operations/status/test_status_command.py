"""`python -m operations status`, as it is typed."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from operations.__main__ import main
from operations.status import command
from operations.status.report import Health, Line, Report
from tests.operations.google_server import REFUSED, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.past_stack import PastStack
from tests.operations.status.samples import METRICS, NODES, PODS, lines_of, node, waiting


@pytest.fixture
def run(
    neutral: PastStack,
    google: GoogleServer,
    cluster: KubernetesServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., int]:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend_up}")
    monkeypatch.setattr("time.sleep", lambda _: None)
    where = ["--endpoint", google.address, "--kubeconfig", str(cluster.kubeconfig(tmp_path))]
    return lambda *words: main(["status", "--stack", "neutral", *where, *words])


def test_a_stack_that_works_is_exit_status_0(
    run: Callable[..., int], metrics: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics(lines_of(*METRICS))
    assert run() == 0
    assert "step 2 of 40, loss 2.0000" in " ".join(capsys.readouterr().out.split())


def test_the_pages_of_the_console_are_named(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--json") == 0
    links = json.loads(capsys.readouterr().out)["links"]
    assert links["dashboard"].startswith("https://console.cloud.google.com/monitoring/dashboards/builder/")
    assert [*links] == ["dashboard", "cluster", "bucket"]
    assert {address.partition("?")[2] for address in links.values()} == {"project=my-project"}
    name = links["cluster"].split("/")[-2]
    assert name.startswith("neutral-cluster-") and "/us-central1/" in links["cluster"]


def test_what_needs_somebody_is_exit_status_1_with_the_remedy(
    run: Callable[..., int], cluster: KubernetesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.plant(PODS, waiting("ImagePullBackOff"), waiting("ImagePullBackOff", name="q"))
    assert run() == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 pods: check imageUri or servingImage, and who may read it" in shown


def test_what_cannot_be_looked_at_is_exit_status_2(
    run: Callable[..., int], cluster: KubernetesServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fail("/api", REFUSED)
    assert run() == 2
    assert "could not look at nodes: /api/v1/nodes: " in capsys.readouterr().out


def test_a_program_reads_the_same(
    run: Callable[..., int],
    cluster: KubernetesServer,
    metrics: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics(lines_of(*METRICS))
    cluster.plant(NODES, node("a"))
    assert run("--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["progress"]["last"]["loss"] == 2.0
    assert {entry["kind"]: entry["health"] for entry in printed["lines"]} == {
        "cluster": "good",
        "nodes": "good",
        # No pod is planted that runs on them.
        "idle nodes": "waiting",
        "cost": "good",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--watch", "--json"), "leave --json out"),
        (("--kubeconfig", "nowhere"), "nowhere is no kubeconfig"),
        (("--kubeconfig", "Makefile"), "Makefile is no kubeconfig"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    words: tuple[str, ...], message: str, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("operations status: ")
    assert message in error


def test_a_stack_that_is_down_has_no_status(
    run: Callable[..., int],
    neutral: PastStack,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend}")
    assert run() == 2
    assert (
        "stack neutral has no resources; create them with `pulumi up --stack neutral`"
        in capsys.readouterr().err
    )


def test_follow_shows_one_look_after_the_other_until_it_is_interrupted() -> None:
    reports = iter(
        Report(
            stack="s",
            lines=(Line(kind="job", name="j", state=state, health=health),),
            progress=None,
            unseen=(),
        )
        for state, health in (("starting", Health.WAITING), ("running", Health.GOOD), ("failed", Health.BAD))
    )
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    console = Console(record=True, force_terminal=True, width=100)
    assert command.watch(lambda: next(reports), console, pause) == 1
    shown = console.export_text()
    assert "starting" in shown and "failed" in shown


def test_escape_codes_of_a_status_are_visible() -> None:
    odd = Line(kind="job", name="j\x1b[2J", state="\x9b2Jgone", detail="\u202eback")
    report = Report(stack="s", lines=(odd,), progress=None, unseen=())
    console = Console(record=True, width=100, file=StringIO())
    console.print(command.drawn(report, datetime.now(UTC)))
    shown = console.export_text()
    assert r"\x9b2Jgone" in shown and r"\x1b[2J" in shown
    assert "\x9b" not in shown and "\u202e" not in shown
