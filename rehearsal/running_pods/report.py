"""Lines about a training: its progress every ten seconds, its end, and what network policies refused."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, Self

from engine.go_build import Log
from rehearsal.control_plane.api import ApiError
from rehearsal.running_pods.stage import Stage

_SECONDS: Final = 10.0


class TrainingLog:
    """Logs the progress of the training every ten seconds. It is a context.

    Args:
        stage: The stage of the training.
        log: Receives the lines.
        is_over: Waits for some seconds, and returns whether the context has ended meanwhile.
    """

    def __init__(self, stage: Stage, log: Log, is_over: Callable[[float], bool] | None = None) -> None:
        self._stage, self._log, self._begin = stage, log, time.monotonic()
        self._over = threading.Event()
        self._is_over = is_over or self._over.wait
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        """Starts to log."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._is_over(_SECONDS):
            with suppress(ApiError, ConnectionError):  # the API server may be gone for a while
                self._log(f"{time.monotonic() - self._begin:4.0f} s: {self._progress()}")

    def _progress(self) -> str:
        """The newest step and what is left, or the phases of the pods before the first step."""
        if steps := self._stage.steps():
            return _newest(steps[max(steps)])
        phases = [(pod.get("status") or {}).get("phase", "Pending") for pod in self._stage.pods()]
        if not phases:
            return "no pod yet"
        counts = ", ".join(f"{phases.count(phase)} {phase}" for phase in sorted(set(phases)))
        return f"no step yet, pods: {counts}"


def _newest(line: Mapping[str, float]) -> str:
    """A step, its loss, the time left, and the dollars that its machines would have cost so far."""
    minutes, seconds = divmod(int(line["seconds_left"]), 60)
    parts = [
        f"step {line['step']} of {line['steps']}",
        f"loss {line['loss']:.3f}",
        f"{minutes} min {seconds:02d} s to go",
    ]
    for name, least in (("dollars", ""), ("dollars_over", "over ")):
        parts += [f"{least}{line[name]:.2f} dollars so far"] if name in line else []
    return ", ".join(parts)


def training_end(stage: Stage) -> Iterator[str]:
    """Waits for the end of the training. Yields lines about the result in its pods and its bucket."""
    yield f"the training: {stage.waits_for('the end of the training', stage.outcome)}"
    if not (losses := stage.losses()):
        return
    yield f"{len(losses)} steps, loss {losses[min(losses)]:.3f} to {losses[max(losses)]:.3f}"
    run = stage.run()
    for file in sorted(path for path in run.rglob("*") if path.is_file() and "checkpoint-" not in str(path)):
        yield f"in the bucket: {file.relative_to(run.parent)}, {file.stat().st_size} bytes"


def refused_connections(stage: Stage) -> Iterator[str]:
    """Lines that say whether network policies were enforced, and what they refused."""
    if not stage.stack.cluster:
        return
    if reason := stage.kubelet.firewall.missing:
        yield reason
        return
    refused = stage.kubelet.refused()
    yield f"network policies were enforced; packets refused: {refused.total()}"
    for connection, packets in refused.most_common():
        yield f"refused: {connection}, {packets} packets"
