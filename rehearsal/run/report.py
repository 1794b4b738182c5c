"""What a run says of its training: a line every ten seconds, how it ended, what network policies refused."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Self

from engine.go_build import Log
from rehearsal.control_plane.api import ApiError
from rehearsal.run.stage import Stage

_SECONDS: Final = 10.0


class TrainingLog:
    """Says every ten seconds how far the training is, for as long as the context.

    Args:
        stage: Where the training runs.
        log: Takes the lines.
        is_over: Waits so many seconds; whether the context has ended meanwhile.
    """

    def __init__(self, stage: Stage, log: Log, is_over: Callable[[float], bool] | None = None) -> None:
        self._stage, self._log, self._begin = stage, log, time.monotonic()
        self._over = threading.Event()
        self._is_over = is_over or self._over.wait
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        """Begins."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._is_over(_SECONDS):
            with suppress(ApiError, ConnectionError):  # the API server may be gone for a while
                self._log(f"{time.monotonic() - self._begin:4.0f} s: {self._progress()}")

    def _progress(self) -> str:
        """The newest step and its loss; before there is one, what the pods do."""
        if losses := self._stage.losses():
            step = max(losses)
            return f"step {step}, loss {losses[step]:.3f}"
        phases = [(pod.get("status") or {}).get("phase", "Pending") for pod in self._stage.pods()]
        if not phases:
            return "no pod yet"
        counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in sorted(set(phases)))
        return f"no step yet, pods: {counts}"


def training_end(stage: Stage) -> Iterator[str]:
    """Waits for the end of the training; what its pods and its bucket say of it then."""
    yield f"the training: {stage.waits_for('the end of the training', stage.outcome)}"
    if not (losses := stage.losses()):
        return
    yield f"{len(losses)} steps, loss {losses[min(losses)]:.3f} to {losses[max(losses)]:.3f}"
    run = stage.run()
    for file in sorted(path for path in run.rglob("*") if path.is_file() and "checkpoint-" not in str(path)):
        yield f"in the bucket: {file.relative_to(run.parent)}, {file.stat().st_size} bytes"


def refused_connections(stage: Stage) -> Iterator[str]:
    """Whether network policies were enforced, and what they have refused."""
    if not stage.stack.cluster:
        return
    if reason := stage.kubelet.firewall.missing:
        yield reason
        return
    refused = stage.kubelet.refused()
    yield f"network policies were enforced; packets refused: {refused.total()}"
    for connection, packets in refused.most_common():
        yield f"refused: {connection}, {packets} packets"
