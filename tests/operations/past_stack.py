"""The remains of a destroyed stack, in a module so that the processes of a test run can share them."""

from dataclasses import dataclass
from pathlib import Path

from operations.plan import StackPlan
from operations.state import State


@dataclass(frozen=True)
class PastStack:
    """A stack that was up once and has been destroyed.

    Args:
        backend: Folder of the engine's backend, after the destroy.
        backend_up: The same while it was up.
        alive: What the engine knew while it was up.
        plan: What its program would make.
    """

    backend: Path
    backend_up: Path
    alive: State
    plan: StackPlan

    def names(self, ending: str) -> list[str]:
        """Physical names of the resources whose type ends in `ending`, while it was up."""
        return [item.physical_name for item in self.alive.resources if item.id and item.type.endswith(ending)]

    def name(self, ending: str) -> str:
        """The one of them, or the first."""
        return sorted(self.names(ending))[0]
