"""The torchrun command on two nodes: here two commands on one machine, with one process each.

The test runs the rendezvous itself, so that it is not lost with a node. In a Job pod 0 runs it. When that pod
is lost, both pods end and start again.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import faulty
import pytest
from outcomes import losses

from rehearsal.running_pods.tiny import make_recipe

TOLERANCE = 1e-5
# The command, whose processes run a plan of `faulty`.
NODE = """
import sys
from finetune import torchrun
from finetune.__main__ import main
torchrun.WORKER = tuple(sys.argv[1:4])
sys.exit(main(sys.argv[4:]))
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def recipe(tiny: Path, store: Path) -> Path:
    """The recipe of l4-kueue: six steps of two rows per process, a checkpoint every two steps.

    It has data loaders, which must not end before their trainer has saved.
    """
    more = {"accumulation_steps": 1, "packing": False, "loader_processes": 2}
    return make_recipe(store / "recipe.yaml", tiny, "gemma-3-4b-sql", **more)


@pytest.fixture(scope="module")
def meeting() -> Any:
    """Where the nodes meet."""
    from torch.distributed import TCPStore

    return TCPStore("localhost", 0, is_master=True, wait_for_workers=False)


@pytest.fixture(scope="module")
def start(recipe: Path, store: Path, warm: str, meeting: Any) -> Iterator[Start]:
    """Starts a node on a plan. Every node is ended after the tests."""
    (store / "node.py").write_text(NODE)
    started: list[Any] = []

    def start_node(node: int, plan: list[dict[str, Any]]) -> "subprocess.Popen[str]":
        run = plan[-1]["arguments"][-1]
        file = store / f"plan-{run}.json"
        file.write_text(json.dumps(plan))
        command = [sys.executable, warm, f"{store}/node.py", warm, faulty.__file__, str(file)]
        command += ["torchrun", "--processes", "1", "--nodes", "2", f"--rendezvous=localhost:{meeting.port}"]
        process = subprocess.Popen(
            [*command, *local(recipe, store, run)[1:]],
            env={**os.environ, "NODE": str(node)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start_node
    for process in started:
        process.kill()
        with process:
            pass


@pytest.fixture(scope="module")
def lossy(start: Start, recipe: Path, store: Path) -> str:
    """The runs `undisturbed` and `lossy`, which loses a node in its third step and gets it back.

    The output.
    """
    (store / "once").touch()
    lose = {"node": "1", "step": 3, "once": str(store / "once")}
    plan = [
        {"arguments": local(recipe, store, "undisturbed")},
        {"arguments": local(recipe, store, "lossy"), "lose": lose},
    ]
    stayed, lost = start(0, plan), start(1, plan)
    output = lost.communicate()[0]
    assert lost.returncode == -signal.SIGKILL, output
    back = start(1, plan)
    outputs = [node.communicate()[0] for node in (stayed, back)]
    assert (stayed.returncode, back.returncode) == (0, 0), outputs
    return "".join(outputs)


@pytest.mark.slow
def test_a_node_that_is_lost_and_comes_back_costs_only_the_steps_since_the_last_checkpoint(
    lossy: str, store: Path
) -> None:
    """The other node stays, joins the new one, and both resume from the checkpoint."""
    assert "from step 2" in lossy
    assert losses(store / "lossy") == pytest.approx(losses(store / "undisturbed"), abs=TOLERANCE)


@pytest.mark.slow
def test_nodes_that_are_suspended_save_and_go_on_from_that_step_when_they_are_back(
    start: Start, recipe: Path, store: Path, lossy: str
) -> None:
    """Kueue ends both pods. Each exits with the code that the Job does not count as a failure."""
    fifos = [store / "held-fifo-0", store / "held-fifo-1"]
    for fifo in fifos:
        os.mkfifo(fifo)
    hold = {"step": 3, "held": str(store / "held-fifo")}
    plan = [{"arguments": local(recipe, store, "held"), "hold": hold}]
    nodes = [start(node, plan) for node in (0, 1)]
    assert [fifo.read_text() for fifo in fifos] == ["held", "held"]
    for node in nodes:
        node.terminate()
    outputs = [node.communicate()[0] for node in nodes]
    assert [node.returncode for node in nodes] == [143, 143], outputs
    for output in outputs:
        assert "run held was stopped by SIGTERM; the same command goes on from step 3" in output
    del plan[0]["hold"]
    nodes = [start(node, plan) for node in (0, 1)]
    outputs = [node.communicate()[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert "from step 3" in "".join(outputs)
    assert losses(store / "held") == pytest.approx(losses(store / "undisturbed"), abs=TOLERANCE)


def test_a_node_that_is_told_to_end_before_the_others_have_come_has_not_failed(
    start: Start, recipe: Path, store: Path, meeting: Any
) -> None:
    node = start(0, [{"arguments": local(recipe, store, "alone")}])
    meeting.wait(["torch.rendezvous.alone"])
    node.terminate()
    output = node.communicate()[0]
    assert node.returncode == 143, output


def local(recipe: Path, store: Path, run: str) -> list[str]:
    return ["local", "--recipe", str(recipe), "--storage", str(store), "--run", run]
