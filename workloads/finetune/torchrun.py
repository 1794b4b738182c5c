"""Training with torchrun, started from this process, with one process per GPU on one node or several."""

import sys
from argparse import Namespace

from finetune.storage.checkpoint import RunFolder
from launch.torchrun import Launch, launch
from shared.exit_codes import FINAL, Exit
from shared.time_limit import Limits

# The command of each process, without its arguments.
WORKER = ("-m", "finetune", "local")


def run_torchrun(run: RunFolder, options: Namespace) -> int:
    """Train in `options.processes` processes on each of `options.nodes` nodes. Returns the exit code.

    With more than one node the same command runs on each, in any order, and `options.rendezvous` (HOST:PORT)
    is an address of one of them. A single node needs no address.
    """
    arguments = [f"--recipe={options.recipe}", f"--storage={options.storage}", f"--run={options.run}"]
    arguments += [f"--set={override}" for override in options.overrides]
    arguments += ["--resize"] * options.resize
    if options.batch_for is not None:
        arguments.append(f"--batch-for={options.batch_for}")
    arguments += Limits.of(options).arguments()
    ending = launch(
        Launch(
            name=run.name,
            command=(sys.executable, "-u", *WORKER, *arguments),
            processes=options.processes,
            nodes=options.nodes,
            rendezvous=options.rendezvous,
            final=FINAL,
            saved={Exit.LIMIT_REACHED},
        )
    )
    if ending.stopped_by is None:
        return ending.code
    if run.finished():
        return Exit.FINISHED
    newest = run.newest_checkpoint()
    print(
        f"run {run.name} was stopped by {ending.stopped_by.name}; the same command goes on "
        + (f"from step {newest.step}" if newest else "from the beginning"),
        flush=True,
    )
    if ending.lost is not None:
        print(f"error: a process ended with {ending.lost} and has not saved", file=sys.stderr, flush=True)
    return ending.code
