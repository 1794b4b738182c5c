"""A worker that is killed, or whose node is drained, at certain steps. Ray's workers import it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.remembered import SUBMISSION

if TYPE_CHECKING:
    from maxtext_driver.run_folder import RunFolder


def train_and_die(config: dict[str, Any]) -> None:
    """Replaces the driver's worker function: kills rank 1 once after each step in `<output>/faults`.

    The directory holds a file per fault, which is removed when the fault has happened:

    - `7`: a kill after step 7
    - `drain-2`: after step 2 Ray hears that the node ends in half a minute
    - `term-2`: a SIGTERM to that worker after step 2
    - `stop-2`: after step 2 a SIGTERM to the process whose number the file holds
    - `other-6`: another command takes the run over after step 6

    Nothing is killed in a start with a drain. `<output>/starts` has the steps saved and logged before each
    start.
    """
    import ray.train
    from maxtext.trainers.pre_train import train as pre_train

    from maxtext_driver import worker
    from maxtext_driver.run_folder import RunFolder

    run = RunFolder(Path(config["output"]), config["run"])
    original = pre_train.checkpointing.maybe_save_checkpoint
    rank = ray.train.get_context().get_world_rank()
    if rank == 0:
        logged = len((run.read_text("metrics.jsonl") or "").splitlines())
        with (run.output / "starts").open("a") as starts:
            starts.write(f"{run.steps_saved()} {logged}\n")
    faults = Faults(Path(config["output"], "faults"), run)

    def save_and_die(manager: Any, state: Any, settings: Any, data: Any, step: int | None = None) -> None:
        original(manager, state, settings, data, step)
        if rank == 1:
            faults.strike(None if step is None else step + 1)

    patched: Any = pre_train.checkpointing
    patched.maybe_save_checkpoint = save_and_die
    worker.train_on_worker(config)


class Faults:
    """The faults of a run.

    Args:
        folder: The directory with a file per fault.
        run: The run.
    """

    def __init__(self, folder: Path, run: "RunFolder") -> None:
        self._folder, self._run = folder, run
        self._draining = False

    def strike(self, step: int | None) -> None:
        """Lets the faults of a step happen, after it was saved."""
        drain, term, stop, other = (
            self._folder / f"{kind}-{step}" for kind in ("drain", "term", "stop", "other")
        )
        kill = self._folder / str(step)
        if drain.exists():
            drain.unlink()
            drain_node()
            self._draining = True
        elif self._draining:
            wait_for_notice()
        elif term.exists():
            term.unlink()
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for_notice()
        elif stop.exists():
            os.kill(int(stop.read_text()), signal.SIGTERM)
            stop.unlink()
            self._draining = True
        elif other.exists():
            other.unlink()
            os.environ[SUBMISSION] = "another"
            self._run.writer.begin()
        elif kill.exists():
            kill.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def wait_for_notice() -> None:
    """Wait until JAX knows of a SIGTERM, at most two seconds.

    It looks for one every second, and these steps are much shorter: the run would be over.
    """
    from jax._src.distributed import global_state

    client: Any = global_state.client
    with suppress(RuntimeError):
        client.blocking_key_value_get("RECEIVED_PREEMPTION_NOTICE", 2000)


def drain_node() -> None:
    """Tell Ray that this process's node goes, as `ray start` does at a SIGTERM."""
    import ray

    context = ray.get_runtime_context()
    where = ["--address", context.gcs_address, "--node-id", context.get_node_id()]
    why = ["--reason", "DRAIN_NODE_REASON_PREEMPTION", "--reason-message", "it goes"]
    ray_command = [sys.executable, "-m", "ray.scripts.scripts", "drain-node"]
    subprocess.run([*ray_command, *where, *why, "--deadline-remaining-seconds", "30"], check=True)
