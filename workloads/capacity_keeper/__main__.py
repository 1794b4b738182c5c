"""Runs the keeper until it is ended."""

import argparse
import os
import signal
import threading
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path

from capacity_keeper.cluster import ODD, Cluster
from capacity_keeper.search import MOVE, Action, HoldBack, Release, Renew, Start, Stop, decide

# Where Kubernetes puts the token of a pod's service account.
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_SECONDS_PER_MINUTE = 60.0


def main() -> None:
    """Look at the jobs again and again, and act."""
    options = _options()
    scale = options.minute / _SECONDS_PER_MINUTE
    minutes = {name: float(number) * scale for name, number in options.tries}
    cluster = Cluster(options.api, options.account, options.namespace, options.queue)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    print(
        f"watches {options.namespace}: {', '.join(f'{name} {number}' for name, number in options.tries)}",
        flush=True,
    )
    while not ended.wait(options.period):
        try:
            _round(cluster, minutes, MOVE * scale)
        except (OSError, HTTPException, *ODD) as error:
            # The API server may be away for some time, for example for an upgrade, and answer half.
            print(f"error: {error!r}", flush=True)


def _round(cluster: Cluster, minutes: dict[str, float], move: float) -> None:
    now = datetime.now(UTC)
    for action in decide(minutes, cluster.holds(minutes), cluster.jobs(), now, move=move):
        cluster.do(action, now)
        print(f"{now:%H:%M:%S} {_words(action)}", flush=True)


def _words(action: Action) -> str:
    match action:
        case HoldBack():
            return f"{action.capacity}: held back"
        case Release():
            return f"{action.capacity}: tried again"
        case Stop():
            job = action.job
            return f"{job.name}: a pod waits for a node of {job.capacity} since {job.since:%H:%M:%S}; stopped"
        case Start():
            return f"{action.job.name}: in the queue again"
        case Renew():
            return f"{action.job.name}: its nodes were taken back; in the queue as a new job"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m capacity_keeper", description=__doc__)
    parser.add_argument(
        "--try",
        dest="tries",
        action="append",
        required=True,
        type=lambda text: tuple(text.split("=")),
        metavar="CAPACITY=MINUTES",
        help="a capacity and the time for which it is tried; repeated, in their order",
    )
    parser.add_argument("--namespace", required=True, help="the namespace of the jobs")
    parser.add_argument("--queue", required=True, help="the queue of the jobs")
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    parser.add_argument("--api", default=f"https://{host}:{port}", help="address of the API server")
    parser.add_argument("--account", type=Path, default=_ACCOUNT, help="folder with `token` and `ca.crt`")
    parser.add_argument("--period", type=float, default=15.0, help="seconds between two looks")
    parser.add_argument(
        "--minute", type=float, default=60.0, help="seconds of a minute, fewer in a rehearsal"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
