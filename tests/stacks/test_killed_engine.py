"""An engine that is killed: `cancel`, `refresh`, `up` and `destroy` recover from it."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from engine.errors import EngineError
from rehearsal.control_plane.api import until
from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import CLUSTER, Item
from rehearsal.session import Rehearsal


class Killer:
    """Kills the engine while it waits for the first cluster.

    Args:
        rehearsal: The rehearsal that runs the engine.

    Attributes:
        clusters: Ids of the clusters that were being created when the engine was killed.
    """

    def __init__(self, rehearsal: Rehearsal) -> None:
        self.clusters: list[str] = []
        self._rehearsal = rehearsal

    def __call__(self, item: Item) -> None:
        """Kills the engine if the item is the first cluster."""
        if item.type != CLUSTER or self.clusters:
            return
        self.clusters.append(item.id)
        engine = int(subprocess.check_output(["pgrep", "-P", str(os.getpid()), "pulumi"]))
        # An engine that is killed while it writes leaves half a state: tests/engine/test_half_a_state.py.
        until(lambda: "a whole state", lambda: self._is_stopped_with_a_whole_state(engine), 60)
        os.kill(engine, signal.SIGKILL)

    def _is_stopped_with_a_whole_state(self, engine: int) -> bool:
        os.kill(engine, signal.SIGSTOP)
        until(lambda: "all of its threads to stop", lambda: thread_states(engine) == {"T"}, 60)
        try:
            (file,) = self._rehearsal.backend.glob(".pulumi/stacks/*/*.json")
            # The file beside it is written first, and no command opens the state without it.
            return all(json.loads(path.read_text()) for path in (file, Path(f"{file}.attrs")))
        except (OSError, ValueError):
            os.kill(engine, signal.SIGCONT)
            return False


def thread_states(process: int) -> set[str]:
    """The states of a process's threads. `T` is stopped, see proc_pid_stat(5)."""
    files = Path(f"/proc/{process}/task").glob("*/stat")
    return {file.read_text().rpartition(")")[2].split()[0] for file in files}


def test_an_engine_that_dies_half_way_is_recovered_from_by_cancel_refresh_up_and_destroy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PULUMI_SKIP_CHECKPOINTS", "false")
    lines: list[str] = []
    with Rehearsal("a4-ray", progress=lines.append) as rehearsal:
        rehearsal.cloud.on_write = killer = Killer(rehearsal)
        with pytest.raises(EngineError, match="pulumi up was killed by SIGKILL"):
            rehearsal.up()
        with pytest.raises(RehearsalError, match="currently locked by 1 lock"):
            rehearsal.up()
        rehearsal.engine(["cancel", "--yes"])
        rehearsal.engine(["refresh", "--yes"])
        rehearsal.up()
        assert any("::a4-ray-cluster, interrupted while creating" in line for line in lines)
        rehearsal.engine(["refresh", "--yes", "--clear-pending-creates"])
        assert rehearsal.preview().changed == 0
        assert "pending_operations" not in rehearsal.state()["deployment"]
        # The engine did not live to write this cluster into its state. It uses the network.
        (cluster,) = killer.clusters
        rehearsal.release()
        with pytest.raises(RehearsalError, match=f"is already being used by {cluster}"):
            rehearsal.destroy()
        (orphan,) = (item for item in rehearsal.cloud.items if item.id == cluster)
        rehearsal.cloud.remove(orphan)
        rehearsal.destroy()
        assert not rehearsal.state()["deployment"].get("resources")
