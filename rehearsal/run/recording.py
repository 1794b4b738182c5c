"""What a stage shows over time, its pods, Kueue's view of the training and the loss, and a picture of it."""

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final, Self

from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

from rehearsal.control_plane.api import ApiError, Object, is_true
from rehearsal.run.stage import Stage

_QUEUE: Final = "the Job, as Kueue has it"
_COLOURS: Final = {
    "waits for GPUs": "#d0d0d0",
    "starts": "#f2dc8c",
    "runs, is admitted": "#8fb4d9",
    "told to end": "#d9722e",
    "pre-empted": "#b3261e",
}
_WAITS, _STARTS, _RUNS, _LEAVES, _PREEMPTED = _COLOURS
_LEFT, _WIDTH, _TOP, _ROW, _LOSS = 240, 900, 30, 22, 130


class Recording:
    """Follows the API server and the run's metrics for as long as the context.

    Args:
        stage: What is recorded.

    Attributes:
        ends: How pods have ended, by their names: `exit 143`.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self._begun = stage, time.monotonic()
        self._states: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self._losses: dict[int, tuple[float, float]] = {}
        self._notes: list[tuple[float, str]] = []
        self.ends: dict[str, str] = {}
        self._ended, self._events = threading.Event(), watch.Watch()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._follow, self._ask)]

    def __enter__(self) -> Self:
        """Begins."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._ended.set()
        self._events.stop()
        for thread in self._threads:
            thread.join(5)

    def note(self, text: str) -> None:
        """Marks this moment in the picture."""
        self._notes.append((time.monotonic() - self._begun, text))

    def _see(self, name: str, state: str) -> None:
        if [seen for _, seen in self._states[name][-1:]] != [state]:
            self._states[name].append((time.monotonic() - self._begun, state))

    def _follow(self) -> None:
        """Sees every state of every pod, however short."""
        settings = client.Configuration(no_proxy="127.0.0.1")
        config.load_kube_config(str(self._stage.plane.kubeconfig), client_configuration=settings)
        pods = client.CoreV1Api(client.ApiClient(settings)).list_pod_for_all_namespaces
        with suppress(HTTPError):  # when it is stopped
            for event in self._events.stream(pods, deserialize=False):
                self._see_pod(event["object"], gone=event["type"] == "DELETED")

    def _see_pod(self, pod: Object, *, gone: bool) -> None:
        name, statuses = pod["metadata"]["name"], pod["status"].get("containerStatuses") or ()
        for ended in (each["state"]["terminated"] for each in statuses if "terminated" in each["state"]):
            self.ends[name] = f"exit {ended['exitCode']}"
        state = _STARTS if "nodeName" in pod["spec"] else _WAITS
        state = _RUNS if is_true(pod, "Ready") else state
        state = _LEAVES if "deletionTimestamp" in pod["metadata"] else state
        self._see(name, "" if gone or name in self.ends else state)

    def _ask(self) -> None:
        """Sees the Job in the queue, and the loss."""
        while not self._ended.wait(0.2):
            with suppress(ApiError, ConnectionError):  # before Kueue is there
                for each in self._stage.api.list("kueue.x-k8s.io/v1beta2", "Workload"):
                    if each["metadata"]["name"].startswith("job-"):
                        state = _PREEMPTED if is_true(each, "Evicted") else _WAITS
                        state = _RUNS if is_true(each, "Admitted") else state
                        self._see(_QUEUE, "" if is_true(each, "Finished") else state)
            for step, loss in self._stage.losses().items():
                self._losses.setdefault(step, (time.monotonic() - self._begun, loss))

    def draw(self, path: Path) -> None:
        """Writes the picture, an SVG."""
        height = _TOP + _ROW * len(self._states) + _LOSS + 60 + 18 * (len(self._notes) + 1)
        path.write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 80} {height}" '
            'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n'
            + "".join(f"{line}\n" for line in self._lines(time.monotonic() - self._begun))
            + "</svg>\n"
        )

    def _lines(self, length: float) -> Iterator[str]:
        def x(seconds: float) -> str:
            return f"{_LEFT + seconds / length * _WIDTH:.1f}"

        bottom = _TOP + _ROW * len(self._states) + _LOSS + 10
        for seconds in range(0, int(length), 30):
            yield f'<path d="M{x(seconds)} {_TOP}V{bottom}" stroke="#eee"/>'
            yield _text(x(seconds), bottom + 15, f"{seconds} s", "middle")
        rows = sorted(self._states, key=lambda name: (name != _QUEUE, self._states[name]))
        for y, name in zip(range(_TOP, bottom, _ROW), rows, strict=False):
            yield _text(_LEFT - 8, y + 15, name, "end")
            seen = self._states[name]
            for (begin, state), (end, _) in pairwise([*seen, (length, "")]):
                if state:
                    size = f'width="{(end - begin) / length * _WIDTH:.1f}" height="{_ROW - 6}"'
                    yield f'<rect x="{x(begin)}" y="{y + 3}" {size} fill="{_COLOURS[state]}"/>'
            yield _text(x(seen[-1][0] + length / 200), y + 15, self.ends.get(name, ""))
        losses = [loss for _, loss in self._losses.values()] or [0.0]
        low, span = min(losses), max(losses) - min(losses) or 1.0
        yield _text(_LEFT - 8, bottom - _LOSS + 15, f"loss {max(losses):.2f}", "end")
        yield _text(_LEFT - 8, bottom, f"{low:.2f}", "end")
        before = -length
        for step, (seconds, loss) in self._losses.items():
            y = bottom - (loss - low) / span * (_LOSS - 20)
            yield f'<circle cx="{x(seconds)}" cy="{y:.1f}" r="3" fill="#33691e"/>'
            if seconds - before > 10 or step == max(self._losses):
                yield _text(x(seconds), y - 6, f"step {step}", "middle")
            before = seconds
        for number, (seconds, text) in enumerate(self._notes, 1):
            yield f'<path d="M{x(seconds)} {_TOP - 4}V{bottom}" stroke="#555" stroke-dasharray="3"/>'
            yield _text(x(seconds), _TOP - 8, str(number), "middle")
            yield _text(_LEFT, bottom + 30 + 18 * number, f"{number}: {text} ({seconds:.0f} s)")
        for column, (state, colour) in enumerate(_COLOURS.items()):
            left, y = _LEFT + 150 * column, bottom + 30 + 18 * (len(self._notes) + 1)
            yield f'<rect x="{left}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
            yield _text(left + 18, y, state)


def _text(x: float | str, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
