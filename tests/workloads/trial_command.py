"""How the command of a trial ended."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def line(self) -> str:
        """The one line about a failure, which is the last."""
        lines = [line for line in self.err.splitlines() if line.startswith(("error: ", "warning: "))]
        assert len(lines) == 1 and self.err.splitlines()[-1] == lines[0]
        return lines[0]
