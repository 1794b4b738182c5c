"""`python -m operations first-run`: what is seen of each assumption where a stack is up, and what is not."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operations.assumptions.assumptions import assumptions
from operations.assumptions.command import Row, Verdict, look
from operations.assumptions.measurements import MEASUREMENTS, LiveStack
from operations.google.clients import Clients
from operations.state import State
from operations.status.cluster import from_kubeconfig
from tests.operations.conftest import HF_TOKEN, Command, CommandResult, PastStack
from tests.operations.first_run.answers import CONTRADICTIONS, STATE, Answers, plan_with_ray
from tests.operations.google_server import A_PAGE, CUT, REFUSED, SLOW, UNAVAILABLE, Fault, GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.project import PROJECT

HOLDS, DIFFERS, UNSEEN, BY_HAND = Verdict.HOLDS, Verdict.DIFFERS, Verdict.UNSEEN, Verdict.BY_HAND
Looks = Callable[..., dict[str, Verdict]]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesServer]:
    # A test does not wait between two tries.
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with KubernetesServer() as server:
        yield server


@pytest.fixture
def looks(google: GoogleServer, cluster: KubernetesServer, tmp_path: Path) -> Looks:
    """What comes of every assumption that is measured."""

    def looks(answers: Answers, state: State = STATE, timeout_s: float = 20.0) -> dict[str, Verdict]:
        answers.answer(google, cluster)
        clients = Clients(PROJECT, google.address, timeout_s=timeout_s)
        kubeconfig = cluster.kubeconfig(tmp_path)
        stack = LiveStack(
            plan=plan_with_ray(), state=state, clients=clients, reached=from_kubeconfig(kubeconfig)
        )
        rows = [look(id, stack) for id in assumptions()]
        assert all(row.seen for row in rows if row.verdict is not BY_HAND)
        return {row.id: row.verdict for row in rows if row.verdict is not BY_HAND}

    return looks


def test_every_assumption_holds_where_all_answers_confirm_it(looks: Looks) -> None:
    assert looks(Answers()) == dict.fromkeys(MEASUREMENTS, HOLDS)


@pytest.mark.parametrize("id", MEASUREMENTS)
def test_an_answer_that_contradicts_an_assumption_is_told_of_that_one_alone(id: str, looks: Looks) -> None:
    answers = Answers()
    CONTRADICTIONS[id](answers)
    assert looks(answers) == {**dict.fromkeys(MEASUREMENTS, HOLDS), id: DIFFERS}


def test_every_assumption_differs_where_all_answers_contradict_it(looks: Looks) -> None:
    answers = Answers()
    for contradict in CONTRADICTIONS.values():
        contradict(answers)
    assert looks(answers) == dict.fromkeys(MEASUREMENTS, DIFFERS)


@pytest.mark.parametrize(
    "fault", [REFUSED, UNAVAILABLE, A_PAGE, CUT, SLOW, Fault(body=b"{}"), Fault(body=b"[[]]")]
)
def test_nothing_holds_and_nothing_differs_where_nobody_answers(
    fault: Fault,
    looks: Looks,
    google: GoogleServer,
    cluster: KubernetesServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    google.fail_all(fault)
    cluster.fail("/", fault)
    if fault.hang:
        monkeypatch.setattr("operations.status.cluster._READ_S", 0.1)
    timeout_s = 0.1 if fault.hang else 20.0
    assert looks(Answers(), timeout_s=timeout_s) == dict.fromkeys(MEASUREMENTS, UNSEEN)


def test_without_a_stack_only_the_project_is_seen(looks: Looks) -> None:
    rows = looks(Answers(), State())
    of_the_project = {"gpu-zones", "l4-zones", "v6e-zones", "permission-names", "sku-descriptions"}
    assert {id for id, verdict in rows.items() if verdict is HOLDS} == of_the_project
    assert DIFFERS not in rows.values()


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (DIFFERS, ["seen", "goes wrong"]),
        (HOLDS, ["seen"]),
        (UNSEEN, ["seen", "how to look"]),
        (BY_HAND, ["seen", "how to look"]),
    ],
)
def test_what_differs_is_shown_with_what_goes_wrong_and_what_is_not_seen_with_how_to_look(
    verdict: Verdict, shown: list[str]
) -> None:
    fact = {"assumed": "so", "otherwise": "goes wrong", "source": "a page", "look": "how to look"}
    row = Row(id="a-b", verdict=verdict, seen="seen", **fact)
    assert row.cells == ("a-b", verdict, "so", "\n".join(shown))


@pytest.fixture
def run(
    neutral: PastStack,
    google: GoogleServer,
    cluster: KubernetesServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: Command,
) -> Callable[..., CommandResult]:
    """The command, for a stack that is up."""
    monkeypatch.setenv("PULUMI_BACKEND_URL", f"file://{neutral.backend_up}")
    monkeypatch.setenv("HF_TOKEN", HF_TOKEN)
    monkeypatch.setattr("operations.plan.load", lambda *_, **__: neutral.plan)
    where = ["--endpoint", google.address, "--kubeconfig", str(cluster.kubeconfig(tmp_path))]
    return lambda *words: command("first-run", "--stack", "neutral", *where, *words)


def test_what_is_sent_back_has_every_assumption_and_neither_the_project_nor_a_secret(
    run: Callable[..., CommandResult], google: GoogleServer, cluster: KubernetesServer
) -> None:
    answers = Answers()
    CONTRADICTIONS["cilium-end-port"](answers)
    answers.answer(google, cluster)
    message = f"{HF_TOKEN} may not read projects/{PROJECT}"
    google.fail("iam.v1", "iam.permissions.queryTestablePermissions", Fault(code=403, message=message))
    ran = run("--json")
    rows = {row["id"]: row for row in json.loads(ran.out)["findings"]}
    assert list(rows) == list(assumptions())
    assert rows["cilium-end-port"]["verdict"] == DIFFERS and "1.16" in rows["cilium-end-port"]["seen"]
    assert "may not read projects/PROJECT" in rows["permission-names"]["seen"]
    assert PROJECT not in ran.out and HF_TOKEN not in ran.out


def test_a_difference_weighs_more_than_what_was_not_seen(
    run: Callable[..., CommandResult], google: GoogleServer, cluster: KubernetesServer
) -> None:
    assert run().status == 2
    answers = Answers()
    CONTRADICTIONS["v6e-zones"](answers)
    answers.answer(google, cluster)
    ran = run()
    assert ran.status == 1
    assert ran.out.index("v6e-zones") < ran.out.index("cilium-end-port")
