"""The exit codes of both trainers, and whether a retry follows."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final


class Exit(IntEnum):
    """How a run ended."""

    FINISHED = 0
    FAILED = 1
    BAD_INPUT = 2
    LIMIT_REACHED = 3
    # 128 + SIGTERM, as Kubernetes and torchrun report a process that SIGTERM has ended.
    INTERRUPTED = 143


class Retry(StrEnum):
    """Whether a retry follows. The value is the action of a Kubernetes Job's podFailurePolicy."""

    NONE = "FailJob"
    # The default of a Job.
    COUNTED = "Count"
    NOT_COUNTED = "Ignore"


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What an exit code means, in words for people."""

    text: str
    retry: Retry


EXIT_CODES: Final[Mapping[int, Meaning]] = {
    Exit.FINISHED: Meaning(text="finished", retry=Retry.NONE),
    Exit.FAILED: Meaning(text="failed, for a cause that may pass", retry=Retry.COUNTED),
    Exit.BAD_INPUT: Meaning(text="the input is wrong", retry=Retry.NONE),
    Exit.LIMIT_REACHED: Meaning(text="maxRunHours or idleMinutes reached", retry=Retry.NONE),
    Exit.INTERRUPTED: Meaning(text="stopped and saved", retry=Retry.NOT_COUNTED),
}
# The run is not finished, and no retry helps until somebody changes something.
FINAL: Final = frozenset(code for code, meaning in EXIT_CODES.items() if code and meaning.retry is Retry.NONE)
