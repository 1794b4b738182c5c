"""`python -m operations leftovers`: what it prints, and that it deletes nothing."""

import json
from typing import Any

import pytest

from operations.state import Backend
from tests.operations.conftest import Command, CommandResult
from tests.operations.google_server import REFUSED, GoogleServer
from tests.operations.past_stack import PastStack
from tests.operations.project import PROJECT, REGION, ZONE, Project
from tests.operations.test_leftovers import LABELS, NEG, leave


@pytest.fixture
def run(
    neutral: PastStack,
    google: GoogleServer,
    project: Project,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> Command:
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend}")
    monkeypatch.setattr("operations.plan.load", lambda *_, **__: neutral.plan)

    def run(*words: str) -> CommandResult:
        return command("leftovers", "--stack", "neutral", "--endpoint", google.address, *words)

    return run


@pytest.fixture
def much(project: Project, neutral: PastStack) -> tuple[str, str]:
    """Lets the remains of a failed destroy exist, which block each other.

    Returns the names of network and account.
    """
    network, account = neutral.name(":Network"), neutral.name(":Account")
    project.add("networks", network)
    project.add("subnetworks", neutral.name(":Subnetwork"), region=REGION, network=network)
    leave(project, neutral, "a network endpoint group", "a firewall rule", "a disk of a claim", "a bucket")
    project.policy = {
        "roles/logging.logWriter": [f"serviceAccount:{account}", "user:somebody@example.com"],
        "roles/owner": ["user:somebody@example.com"],
    }
    project.add("serviceAccounts", account)
    return network, account


def test_nothing_left_is_exit_status_0(run: Command) -> None:
    ran = run()
    assert not ran.status
    assert "nothing is left of neutral in my-project" in ran.out


def test_something_left_is_exit_status_1_and_shown_with_its_commands(
    run: Command, project: Project, much: tuple[str, str]
) -> None:
    network, account = much
    before = project.names()
    ran = run()
    assert ran.status == 1
    assert f"gcloud compute networks delete {network} --project my-project" in ran.out
    assert f"delete {NEG} --zone {ZONE} --project my-project\n" in ran.out
    assert f"--member serviceAccount:{account} --role roles/logging.logWriter --all --quiet\n" in ran.out
    message = json.loads(run("--json").out)
    assert (message["unseen"], len(message["left"])) == ([], 8)
    assert {left["kind"] for left in message["left"]} >= {"disk", "bucket", "network", "role binding"}
    assert project.names() == before


def test_the_commands_stand_in_an_order_that_works(run: Command, much: tuple[str, str]) -> None:
    network, _account = much
    commands = [line.strip() for line in run().out.splitlines() if line.startswith("  gcloud ")]

    def place(text: str) -> int:
        (number,) = (number for number, command in enumerate(commands) if text in command)
        return number

    for inside in (NEG, "firewall-rules", "subnets delete"):
        assert place(inside) < place(f"networks delete {network}")
    assert place("--member") < place("accounts delete")


@pytest.mark.usefixtures("much")
def test_what_is_perhaps_anothers_is_told_apart_and_what_waits_for_it_comes_last(run: Command) -> None:
    titles = [line for line in run().out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "the stack's, to delete in this order; the commands do not ask:",
        "perhaps the stack's, look first; in this order:",
        "the stack's, when nothing of the above is in it any more:",
    ]


@pytest.mark.parametrize("words", [("--delete",), ("--delete", "--yes")])
def test_there_is_no_way_to_let_it_delete(
    words: tuple[str, ...], run: Command, project: Project, much: tuple[str, str]
) -> None:
    before = project.names()
    with pytest.raises(SystemExit):
        run(*words)
    assert project.names() == before


def test_what_could_not_be_looked_for_is_no_success(run: Command, google: GoogleServer) -> None:
    google.fail("compute.v1", "compute.disks.aggregatedList", REFUSED)
    ran = run()
    assert ran.status == 1
    assert (
        f"could not look for disks in {PROJECT}: compute.disks.aggregatedList: 403 Permission denied"
        in ran.out
    )
    assert "nothing is left" not in ran.out


@pytest.mark.parametrize(
    ("api", "method", "answer", "message"),
    [
        (
            "container.v1",
            "container.projects.locations.clusters.list",
            {"missingZones": [ZONE]},
            ["clusters", "node pools"],
        ),
        (
            "compute.v1",
            "compute.disks.aggregatedList",
            {"items": {f"zones/{ZONE}": {"warning": {"code": "UNREACHABLE"}}}},
            ["disks"],
        ),
        (
            "compute.v1",
            "compute.disks.aggregatedList",
            {"items": {f"zones/{ZONE}": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}},
            [],
        ),
    ],
)
def test_a_zone_that_did_not_answer_is_said_to_be_unseen(
    api: str, method: str, answer: Any, message: list[str], run: Command, google: GoogleServer
) -> None:
    google.plant(api, method, answer)
    ran = run()
    lines = [line for line in ran.out.splitlines() if line.startswith("could not look for")]
    assert lines == [
        f"could not look for {kind} in {ZONE} of {PROJECT}: no answer from there" for kind in message
    ]
    assert ran.status == (1 if message else 0)


def test_what_a_thing_is_called_is_obeyed_neither_by_the_table_nor_by_the_terminal(
    run: Command, project: Project
) -> None:
    """Somebody else may have named it."""
    project.add("buckets", "b[bold]\x1b[2J\u202e", labels=LABELS)
    ran = run()
    assert ran.status == 1 and "b[bold]" in ran.out
    assert "\x1b" not in ran.out and "\u202e" not in ran.out


def test_what_has_only_the_labels_is_perhaps_anothers(run: Command, project: Project) -> None:
    """A backend of somebody else's may have a stack of this name in the project."""
    project.add("buckets", "checkpoints-of-their-neutral", labels=LABELS)
    ran = run()
    assert ran.status == 1
    assert "perhaps the stack's, look first; in this order:\n  gcloud storage" in ran.out
    assert "--quiet" not in ran.out


def test_a_saved_state_is_read_in_place_of_the_history(
    run: Command, project: Project, neutral: PastStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    (history,) = neutral.backend.glob(".pulumi/history/*/*")
    monkeypatch.setattr(Backend, "earlier", lambda *_: pytest.fail("the history is not asked"))
    (name,) = leave(project, neutral, "a bucket")
    state = str(sorted(history.glob("*.checkpoint.json"))[0])
    assert f"gs://{name}" in run("--state", state).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--state", "nowhere.json"], "nowhere.json: No such file"),
        (["--state", "pyproject.toml"], "pyproject.toml is no exported state"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: list[str], message: str, run: Command) -> None:
    ran = run(*words)
    assert ran.status == 2
    assert message in ran.err.splitlines()[-1]
