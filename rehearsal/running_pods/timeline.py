"""The states of the pods and the queue of a stage, and the loss, with their seconds."""

from dataclasses import dataclass, field
from typing import Final

# States of a pod, and of the fine-tune in Kueue's queue.
WAITING: Final = "waits"
STARTING: Final = "starts"
RUNNING: Final = "runs"
ENDING: Final = "is told to end"
PREEMPTED: Final = "preempted"


@dataclass(frozen=True)
class Span:
    """A state with its first and last moment, in seconds from the beginning."""

    begin: float
    end: float
    state: str


@dataclass
class History:
    """The states of one pod or of the queue.

    Attributes:
        title: What the picture calls it.
        role: `server`, `fine-tune` or `queue`.
        node: The node of a pod, empty before it has one.
        gpus: GPUs that a pod asks for.
        ending: How a pod ended, such as `exit 143`. Empty while it runs.
        changes: Each state with the second in which it began. An empty state is the end.
    """

    title: str
    role: str
    node: str = ""
    gpus: int = 0
    ending: str = ""
    changes: list[tuple[float, str]] = field(default_factory=list)

    def see(self, second: float, state: str) -> None:
        """Adds a state unless it is the last one."""
        if not self.changes or self.changes[-1][1] != state:
            self.changes.append((second, state))

    def spans(self, length: float) -> list[Span]:
        """Every state. The last one goes on until `length`, in seconds."""
        ends = [second for second, _ in self.changes[1:]] + [length]
        pairs = zip(self.changes, ends, strict=True)
        return [Span(begin, end, state) for (begin, state), end in pairs if state]


@dataclass
class Timeline:
    """Everything that the picture shows.

    Attributes:
        length: Seconds from the beginning to the end.
        queue: The fine-tune in Kueue's queue.
        pods: Pods by their names, in the order in which they were first seen.
        losses: Second and loss, by step.
        notes: Second and text of each moment that was marked.
    """

    length: float = 0.0
    queue: History = field(default_factory=lambda: History("queue", "queue"))
    pods: dict[str, History] = field(default_factory=dict)
    losses: dict[int, tuple[float, float]] = field(default_factory=dict)
    notes: list[tuple[float, str]] = field(default_factory=list)


def lanes(timeline: Timeline) -> list[tuple[str, int]]:
    """The GPUs of the nodes that pods ran on: node and number of the GPU."""
    counts: dict[str, int] = {}
    for pod in timeline.pods.values():
        if pod.node and pod.gpus:
            counts[pod.node] = max(counts.get(pod.node, 0), pod.gpus)
    return [(node, gpu) for node in sorted(counts) for gpu in range(counts[node])]
