"""Runs in other processes with injected faults. torchrun starts it, or Ray's workers import it.

    torchrun --nproc-per-node 2 warm.py faulty.py PLAN.json

PLAN is a list of {"arguments": [...]}, run one after another, each with or without

    "terminate": {"rank": 1, "step": 3}                SIGTERM to one of them
    "terminate": {"rank": 0, "step": 0}                the same while it loads the model
    "lose": {"node": "1", "step": 3, "once": FILE}     kills the node with that NODE, while FILE exists
    "hang": {"rank": 1, "step": 3}                     that rank stands still for a day
    "poison": {"rank": 1, "step": 3}                   an infinity in a gradient of that rank
    "evaluations": {"2": 3.0}                          what the evaluation after a step comes to
    "hold": {"step": 3, "held": PATH}                  writes to the FIFO PATH-RANK and waits for SIGTERM
    "no_room": {"rank": 1}                             the whole model does not fit on that rank
    "gathers": FILE                                    counts how often rank 0 gathers weights for answers

Arguments after PLAN are ignored.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from warm import STARTED_BY

from finetune.run.driver import Request
from rehearsal.running_pods.on_a_cpu.sitecustomize import shard


def main(plan: list[dict[str, Any]]) -> int:
    """Run the plan, and return the first exit code that is not zero."""
    import accelerate.state

    from finetune.__main__ import main as finetune

    shard(accelerate.state)
    for entry in plan:
        for fault, inject in faults().items():
            if fault in entry:
                inject(entry[fault])
        if code := finetune(entry["arguments"]):
            return code
    return 0


def faults() -> dict[str, Callable[[Any], None]]:
    """What injects each fault of a plan."""
    return {
        "terminate": lambda entry: terminate_at(**entry),
        "lose": lambda entry: lose_at(**entry),
        "hang": lambda entry: hang_at(**entry),
        "poison": lambda entry: poison_at(**entry),
        "evaluations": evaluate_to,
        "hold": lambda entry: hold_at(**entry),
        "no_room": lambda entry: leave_no_room(**entry),
        "gathers": lambda file: count_gathers(Path(file)),
    }


def terminate_at(step: int, rank: int) -> None:
    """Send SIGTERM during `step` to one rank."""

    def terminate() -> None:
        if int(os.environ.get("RANK", "0")) == rank:
            os.kill(os.getpid(), signal.SIGTERM)

    if step:
        in_step(step, terminate)
    else:
        while_loading(terminate)


def lose_at(node: str, step: int, once: str) -> None:
    """Kill this process and its torchrun in `step`."""

    def lose() -> None:
        if os.environ["NODE"] == node and Path(once).exists():
            Path(once).unlink()
            os.kill(int(os.environ[STARTED_BY]), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

    in_step(step, lose)


def hold_at(step: int, held: str) -> None:
    """Wait in `step` for SIGTERM, and write to the FIFO `held`-RANK that it waits."""

    def hold() -> None:
        with signal_awaited():
            Path(f"{held}-{os.environ['RANK']}").write_text("held")

    in_step(step, hold)


def hang_at(step: int, rank: int) -> None:
    """Stand still in `step` of one rank. A day passes at once, for the other ranks too."""
    from shared import time_limit

    time_limit.SECONDS_BETWEEN_WRITES = 0.05
    passed = [0.0]
    patched: Any = time_limit.TimeLimit
    patched._clock = property(lambda _: lambda: time.monotonic() + passed[0], lambda *_: None)

    def hang() -> None:
        passed[0] = 24 * 3600
        if int(os.environ.get("RANK", "0")) == rank:
            threading.Event().wait()

    in_step(step, hang)


def poison_at(step: int, rank: int) -> None:
    """Put an infinity into one gradient of one rank in `step`."""
    from trl import SFTTrainer

    original = SFTTrainer.training_step

    def training_step(self: Any, model: Any, *more: Any) -> Any:
        loss = original(self, model, *more)
        if self.state.global_step + 1 == step and self.args.process_index == rank:
            gradient = next(weight.grad for weight in model.parameters() if weight.grad is not None)
            getattr(gradient, "_local_tensor", gradient).view(-1)[0] = float("inf")
        return loss

    patched: Any = SFTTrainer
    patched.training_step = training_step


def evaluate_to(losses: Mapping[str, float]) -> None:
    """Has the evaluation after a step come to a loss."""
    from finetune.run.trainer import RowTrainer

    original = RowTrainer.evaluation_loop

    def come_to(self: Any, *arguments: Any, **options: Any) -> Any:
        output = original(self, *arguments, **options)
        output.metrics["eval_loss"] = losses[str(self.state.global_step)]
        return output

    patched: Any = RowTrainer
    patched.evaluation_loop = come_to


def leave_no_room(rank: int) -> None:
    """Has one rank's memory be too small for the whole model."""
    from finetune.model import sharding

    patched: Any = sharding
    patched._fits = lambda *_: int(os.environ["RANK"]) != rank


def count_gathers(file: Path) -> None:
    """Write how often rank 0 gathers weights each time that the model answers. Then count its whole units.

    A line is {"gathers": 4, "whole": 0}: `whole` is the number of FSDP units that are gathered afterwards.
    """
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group as units

    from finetune.run.answers import Answers

    judged, gather = Answers.judged, units.foreach_all_gather
    gathers: list[None] = []

    def count_and_gather(*arguments: Any) -> Any:
        gathers.append(None)
        return gather(*arguments)

    def judge_and_write(self: Answers, model: Any, *arguments: Any) -> Any:
        gathers.clear()
        figures = judged(self, model, *arguments)
        groups = [
            module._get_fsdp_state()._fsdp_param_group
            for module in model.modules()
            if isinstance(module, FSDPModule)
        ]
        whole = sum(group.is_unsharded for group in groups if group)
        if os.environ["RANK"] == "0":
            with file.open("a") as lines:
                lines.write(json.dumps({"gathers": len(gathers), "whole": whole}) + "\n")
        return figures

    patched: Any = units
    patched.foreach_all_gather = count_and_gather
    patched_answers: Any = Answers
    patched_answers.judged = judge_and_write


def while_loading(act: Callable[[], None]) -> None:
    """Call `act` when this process begins to load the model."""
    from finetune.run import training

    original = training.load_model

    def load_model(*arguments: Any, **options: Any) -> Any:
        act()
        return original(*arguments, **options)

    patched: Any = training
    patched.load_model = load_model


def in_step(step: int, act: Callable[[], None]) -> None:
    """Call `act` in that step of this process's training, before it asks whether to stop."""
    from finetune.local_driver import LocalDriver

    original = LocalDriver.requested
    steps = iter(range(1, 1000))

    def requested(driver: LocalDriver) -> Request:
        if next(steps) == step:
            act()
        return original(driver)

    patched: Any = LocalDriver
    patched.requested = requested


@contextmanager
def signal_awaited() -> Generator[None]:
    """On exit wait for a signal."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    signal.set_wakeup_fd(sender.fileno())
    yield
    receiver.recv(1)
    signal.set_wakeup_fd(-1)


def train_and_die(config: dict[str, Any]) -> None:
    """Replaces the Ray driver's worker function: kills rank 1 once at each step in `<storage>/faults`.

    The directory holds an empty file per step, removed when its fault has happened.
    """
    import ray.train

    from finetune import ray_driver
    from finetune.run import callbacks

    faults = Path(config["storage"], "faults")
    on_step_end = callbacks.SaveOnRequest.on_step_end

    def die_or_go_on(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:
        on_step_end(self, args, state, control, **rest)
        fault = faults / str(state.global_step)
        if ray.train.get_context().get_world_rank() == 1 and fault.exists():
            fault.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    callbacks.SaveOnRequest.on_step_end = die_or_go_on
    ray_driver.train_on_worker(config)


def train_sharded_and_die(config: dict[str, Any]) -> None:
    """The same with shards, on workers that take this machine for nodes of two processes."""
    import accelerate.state

    shard(accelerate.state)
    os.environ["LOCAL_WORLD_SIZE"] = "2"
    train_and_die(config)


def train_with_poison(config: dict[str, Any]) -> None:
    """Replaces the Ray driver's worker function: an infinity in rank 1's gradient in step 5, each time."""
    from finetune import ray_driver

    poison_at(step=5, rank=1)
    ray_driver.train_on_worker(config)


if __name__ == "__main__":
    sys.exit(main(json.loads(Path(sys.argv[1]).read_text())))
