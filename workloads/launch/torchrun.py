"""torchrun in this process: its exit codes tell how the program ended, and SIGTERM leaves time to save.

The command torchrun ends with 1 for every exit code of its processes. It kills them 30 seconds after SIGTERM.
"""

import os
import signal
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from torch.distributed.elastic.multiprocessing import PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

# 128 + SIGTERM is what Kubernetes and torchrun report of a process that SIGTERM has ended. The numbers are
# here because the package runs alone in images of others, with their Python.
FINISHED, FAILED, INTERRUPTED = 0, 1, 128 + signal.SIGTERM
CLOSE = PContext.close
# Seconds between SIGTERM and SIGKILL for the processes. It is this long because the pod's grace period limits
# the time of a checkpoint: Kubernetes then kills all processes. torchrun's own option is new in torch 2.11.
SHUTDOWN_TIMEOUT = 24 * 3600
# The same once a process has failed, as by default in torchrun: without it the others cannot save, and only
# end an upload that has begun. One that still waits to meet it may take half an hour to notice SIGTERM.
SHUTDOWN_TIMEOUT_AFTER_FAILURE = 30
# Seconds within which all nodes must join. A new node must be created and pull the image first.
RENDEZVOUS_TIMEOUT = 1800
# How often a node restarts its processes because another node was lost or has come back.
RESTARTS = 3


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A program on some nodes, each of which makes the same call.

    Args:
        name: Name of the run, which the nodes share.
        command: The command of each process.
        processes: Processes on each node.
        rendezvous: HOST:PORT of one of several nodes. A single node needs no address.
        final: Exit codes after which no other start helps.
        saved: Exit codes of a process that leaves nothing to save, besides 0 and 143.
    """

    name: str
    command: Sequence[str]
    processes: int
    nodes: int = 1
    rendezvous: str | None = None
    final: Set[int] = frozenset()
    saved: Set[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a launch ended on this node.

    Attributes:
        code: The exit code. After a signal, 128 + its number if each process has saved, has finished, or was
            ended by the signal itself before it had done anything.
        stopped_by: The signal that ended it.
        lost: The exit code of a process that a signal ended before it had saved.
    """

    code: int
    stopped_by: signal.Signals | None = None
    lost: int | None = None


@dataclass(kw_only=True)
class _ExitCodes:
    """Closes the processes of a launch in place of torchrun, and keeps their exit codes."""

    launch: Launch
    codes: list[int] = field(default_factory=list)

    @property
    def final(self) -> Set[int]:
        return self.launch.final & set(self.codes)

    @property
    def saved(self) -> Set[int]:
        return {FINISHED, INTERRUPTED, *self.launch.saved}

    def close(self, context: Any, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        ended = {handler.proc.poll() for handler in context.subprocess_handlers.values()}
        failed = ended - {None, *self.saved}
        if not failed:
            _end_each(context, death_sig or signal.SIGTERM)
        CLOSE(context, death_sig, SHUTDOWN_TIMEOUT_AFTER_FAILURE if failed else SHUTDOWN_TIMEOUT)
        self.codes[:] = [handler.proc.returncode for handler in context.subprocess_handlers.values()]
        # torchrun would start them again after any exit code.
        if self.final:
            sys.exit()


def _end_each(context: Any, number: signal.Signals) -> None:
    """Signal each process alone, and wait until it has saved.

    torchrun signals its whole group. A data loader that ended would take the process along, unsaved.
    """
    running = [
        handler.proc for handler in context.subprocess_handlers.values() if handler.proc.poll() is None
    ]
    for process in running:
        process.send_signal(number)
    for process in running:
        process.wait(SHUTDOWN_TIMEOUT)


def launch(launch: Launch) -> Ending:
    """Run the program until its processes have ended on this node."""
    rendezvous = launch.rendezvous if launch.nodes > 1 else None
    # As the torchrun command does. Otherwise each process starts as many threads as the node has cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # With a shared store a node that comes back waits for an address that nobody publishes again.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    config = LaunchConfig(
        min_nodes=launch.nodes,
        max_nodes=launch.nodes,
        nproc_per_node=launch.processes,
        run_id=launch.name,
        rdzv_backend="c10d",
        rdzv_endpoint=rendezvous or "localhost:0",
        max_restarts=RESTARTS if rendezvous else 0,
        rdzv_configs={"join_timeout": RENDEZVOUS_TIMEOUT, "read_timeout": RENDEZVOUS_TIMEOUT},
    )
    exit_codes = _ExitCodes(launch=launch)

    def close(context: Any, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        exit_codes.close(context, death_sig, timeout)

    patched: Any = PContext
    patched.close = close
    program, *arguments = launch.command
    try:
        elastic_launch(config, program)(*arguments)
    except SignalException as stopped:
        return _stopped(stopped.sigval, exit_codes)
    except ChildFailedError as failed:
        return Ending(code=_exit_code(failed))
    except SystemExit:
        return Ending(code=min(exit_codes.final))
    except RendezvousError as error:
        print(f"error: the nodes did not meet at {rendezvous}: {error}", file=sys.stderr, flush=True)
        return Ending(code=FAILED)
    return Ending(code=FINISHED)


def _stopped(number: signal.Signals, exit_codes: _ExitCodes) -> Ending:
    lost = [code for code in exit_codes.codes if code not in {*exit_codes.saved, -number}]
    code = FAILED if lost else 128 + number
    return Ending(code=code, stopped_by=number, lost=lost[0] if lost else None)


def _exit_code(failed: ChildFailedError) -> int:
    """INTERRUPTED if the process that failed first was stopped, else FAILED."""
    rank, first = failed.get_first_failure()
    if first.exitcode == INTERRUPTED:
        return first.exitcode
    print(f"error: the process of rank {rank} ended with {first.exitcode}", file=sys.stderr, flush=True)
    return FAILED
