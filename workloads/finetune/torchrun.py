"""Training with torchrun, started from this process, with one process per GPU on one node or several."""

import os
import signal
import sys
from argparse import Namespace
from typing import Any

from torch.distributed.elastic.multiprocessing import PContext, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import RendezvousError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from finetune.storage.checkpoint import RunFolder
from shared.exit_codes import FINAL, Exit
from shared.time_limit import Limits

CLOSE = PContext.close
# The command of each process, without its arguments.
WORKER = ("-m", "finetune", "local")
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


def run_torchrun(run: RunFolder, options: Namespace) -> int:
    """Train in `options.processes` processes on each of `options.nodes` nodes. Returns the exit code.

    With more than one node the same command runs on each, in any order, and `options.rendezvous` (HOST:PORT)
    is an address of one of them. A single node needs no address.
    """
    rendezvous = options.rendezvous if options.nodes > 1 else None
    # As the torchrun command does. Otherwise each process starts as many threads as the node has cores.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # With a shared store a node that comes back waits for an address that nobody publishes again.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    config = LaunchConfig(
        min_nodes=options.nodes,
        max_nodes=options.nodes,
        nproc_per_node=options.processes,
        run_id=run.name,
        rdzv_backend="c10d",
        rdzv_endpoint=rendezvous or "localhost:0",
        max_restarts=RESTARTS if rendezvous else 0,
        rdzv_configs={"join_timeout": RENDEZVOUS_TIMEOUT, "read_timeout": RENDEZVOUS_TIMEOUT},
    )
    exit_codes: list[int] = []

    def close(context: Any, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        ended = {handler.proc.poll() for handler in context.subprocess_handlers.values()}
        failed = ended - {None, Exit.FINISHED, Exit.LIMIT_REACHED, Exit.INTERRUPTED}
        CLOSE(context, death_sig, SHUTDOWN_TIMEOUT_AFTER_FAILURE if failed else SHUTDOWN_TIMEOUT)
        exit_codes[:] = [handler.proc.returncode for handler in context.subprocess_handlers.values()]
        # torchrun would start them again after any exit code.
        if FINAL.intersection(exit_codes):
            sys.exit()

    PContext.close = close  # ty: ignore[invalid-assignment]
    arguments = [f"--recipe={options.recipe}", f"--storage={options.storage}", f"--run={options.run}"]
    arguments += [f"--set={override}" for override in options.overrides]
    arguments += ["--resize"] * options.resize
    if options.batch_for is not None:
        arguments.append(f"--batch-for={options.batch_for}")
    arguments += Limits.of(options).arguments()
    try:
        elastic_launch(config, sys.executable)("-u", *WORKER, *arguments)
    except SignalException as stopped:
        return Exit.FINISHED if run.finished() else _interrupted(run, stopped.sigval, exit_codes)
    except ChildFailedError as failed:
        return _exit_code(failed)
    except SystemExit:
        return min(FINAL.intersection(exit_codes))
    except RendezvousError as error:
        print(f"error: the nodes did not meet at {rendezvous}: {error}", file=sys.stderr, flush=True)
        return Exit.FAILED
    return Exit.FINISHED


def _interrupted(run: RunFolder, number: signal.Signals, exit_codes: list[int]) -> int:
    """Report a run whose processes were ended by a signal, and return the exit code.

    It says failed unless each process has saved, has finished, or was ended by the signal itself before it
    had trained anything.
    """
    newest = run.newest_checkpoint()
    print(
        f"run {run.name} was stopped by {number.name}; the same command goes on "
        + (f"from step {newest.step}" if newest else "from the beginning"),
        flush=True,
    )
    saved = {Exit.FINISHED, Exit.LIMIT_REACHED, Exit.INTERRUPTED, -number}
    failed = [code for code in exit_codes if code not in saved]
    if failed:
        print(f"error: a process ended with {failed[0]} and has not saved", file=sys.stderr, flush=True)
    return Exit.FAILED if failed else 128 + number


def _exit_code(failed: ChildFailedError) -> int:
    """INTERRUPTED if the process that failed first was stopped, else FAILED."""
    rank, first = failed.get_first_failure()
    if first.exitcode == Exit.INTERRUPTED:
        return first.exitcode
    print(f"error: the process of rank {rank} ended with {first.exitcode}", file=sys.stderr, flush=True)
    return Exit.FAILED
