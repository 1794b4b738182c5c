"""What several tests of the operator's commands start from."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from engine import go_build
from operations import preflight
from operations.__main__ import main
from operations.checks import hub, names
from operations.findings import Finding
from operations.google.clients import Clients
from operations.plan import StackPlan
from operations.state import State, read
from rehearsal.session import Rehearsal
from tests import plans
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN, neutral_stacks
from tests.once import once
from tests.operations.fake_pulumi import FakePulumi
from tests.operations.good_project import GoodProject
from tests.operations.google_server import GoogleServer
from tests.operations.past_stack import PastStack
from tests.operations.planned import planned
from tests.operations.project import PROJECT, REGION, Project

HF_TOKEN = "hf_planted_in_a_test"


def _live(stack: str, temporary: pytest.TempPathFactory) -> PastStack:
    return once(("past", stack), lambda: _lived(stack, temporary.mktemp(stack)))


def _lived(stack: str, folder: Path) -> PastStack:
    settings = {"gcp:project": PROJECT, "gcp:region": REGION, "imageUri": plans.IMAGE}
    with neutral_stacks():
        with Rehearsal(stack, settings) as rehearsal:
            rehearsal.up()
            shutil.copytree(rehearsal.backend, folder / "up")
            rehearsal.remove()
            shutil.copytree(rehearsal.backend, folder / "backend")
        plan = planned(stack)
    (history,) = folder.glob("up/.pulumi/history/*/*/*.checkpoint.json")
    return PastStack(backend=folder / "backend", backend_up=folder / "up", alive=read(history), plan=plan)


@pytest.fixture(autouse=True)
def _neutral_stacks() -> Iterator[None]:
    """The tests' own stacks are among the checkout's."""
    with neutral_stacks():
        yield


@pytest.fixture(scope="session")
def neutral(tmp_path_factory: pytest.TempPathFactory) -> PastStack:
    return _live(NEUTRAL, tmp_path_factory)


@pytest.fixture(scope="session")
def neutral_run(tmp_path_factory: pytest.TempPathFactory) -> PastStack:
    return _live(NEUTRAL_RUN, tmp_path_factory)


class CommandResult(NamedTuple):
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


Command = Callable[..., CommandResult]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `python -m operations WORDS`."""

    def command(*words: str) -> CommandResult:
        capsys.readouterr()
        return CommandResult(main(words), *capsys.readouterr())

    return command


@pytest.fixture
def pulumi_got_earlier(pulumi: FakePulumi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `pulumi` of a test file lies where the project keeps its own, and none is on the path."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "bin").symlink_to(pulumi.folder)
    monkeypatch.setattr(go_build, "TOOLS", tmp_path / "tools")
    monkeypatch.setattr(shutil, "which", lambda _name: None)


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between the attempts of a call, noted instead of waited for."""
    noted: list[float] = []
    for module in ("tenacity.nap", "googleapiclient.http"):
        monkeypatch.setattr(f"{module}.time", SimpleNamespace(sleep=noted.append))
    return noted


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


@pytest.fixture
def clients(google: GoogleServer) -> Clients:
    """Calls that go to the server."""
    return Clients(PROJECT, google.address)


@pytest.fixture
def project(google: GoogleServer) -> Project:
    return Project(google)


@pytest.fixture
def good(google: GoogleServer, monkeypatch: pytest.MonkeyPatch) -> GoodProject:
    """A project and a Hugging Face token without any fault. No stack is up."""
    monkeypatch.setattr(hub, "read_token", lambda _stack: HF_TOKEN)
    monkeypatch.setattr(names, "Backend", lambda _stack: SimpleNamespace(now=State))
    return GoodProject(google)


Check = Callable[[StackPlan, str], list[Finding]]


@pytest.fixture
def check(google: GoogleServer) -> Check:
    """What a check finds."""
    clients = Clients(PROJECT, google.address)
    return lambda plan, topic: preflight.check(topic, plan, clients)
