"""Starts a program of the user's own in one process per GPU, on this node of one or several.

    python3 /launcher --run=RUN --processes=8 --nodes=2 --rendezvous=HOST:PORT --stop-exit-codes=2 \\
        -- python train.py

Exit codes: 0 if the program has finished, 143 if it was interrupted and has saved, one of --stop-exit-codes
if a process ended with it, else 1.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

# torchrun's own variables, for a command without this launcher. A torchrun inside the program must not see
# them.
TORCHRUN = "PET_"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return the exit code."""
    # The first process of a container ignores signals without a handler. torch sets others later.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    options = make_parser().parse_args(arguments)
    say_what_counts(options)
    # A memory or scratch volume is empty at first.
    Path.home().mkdir(parents=True, exist_ok=True)
    for name in [name for name in os.environ if name.startswith(TORCHRUN)]:
        del os.environ[name]
    # torch takes many seconds to import.
    from launch.torchrun import Launch, launch

    ending = launch(
        Launch(
            name=options.run,
            command=options.command,
            processes=options.processes,
            nodes=options.nodes,
            rendezvous=options.rendezvous,
            final=frozenset(options.stop_exit_codes),
        )
    )
    if ending.lost is not None:
        print(f"error: a process ended with {ending.lost} and has not saved", file=sys.stderr, flush=True)
    if ending.stopped_by:
        print(f"run {options.run} was stopped by {ending.stopped_by.name}; the next try goes on", flush=True)
    return ending.code


def say_what_counts(options: argparse.Namespace) -> None:
    """Print the convention by which a run goes on after its end."""
    folder, final = os.environ.get("RUN_FOLDER", ""), ", ".join(map(str, (0, *options.stop_exit_codes)))
    print(
        f"run {options.run}: every try finds the same RUN_FOLDER, {folder}\n"
        f"SIGTERM: save within {options.grace_seconds} seconds and exit with 143, which is never counted\n"
        f"exit codes that end the run: {final}. After another one the run is tried again, "
        f"{options.tries} times",
        flush=True,
    )


def codes(text: str) -> Sequence[int]:
    """Exit codes with commas between them."""
    return sorted(int(word) for word in text.split(",") if word)


def make_parser() -> argparse.ArgumentParser:
    """The options, and the program's command after them."""
    parser = argparse.ArgumentParser(
        prog="launch", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--run", required=True, help="name of the run")
    parser.add_argument("--processes", required=True, type=int, help="processes on this node")
    parser.add_argument("--nodes", default=1, type=int, help="how many nodes run this command, in any order")
    parser.add_argument("--rendezvous", metavar="HOST:PORT", help="where several nodes meet, on one of them")
    parser.add_argument("--stop-exit-codes", type=codes, default=(), help="no other try after these: 2,3")
    parser.add_argument("--grace-seconds", type=int, default=30, help="time from SIGTERM to the end")
    parser.add_argument("--tries", type=int, default=0, help="how often a failed try is repeated")
    parser.add_argument("command", nargs="+", help="the command of each process, after --")
    return parser


if __name__ == "__main__":
    sys.exit(main())
