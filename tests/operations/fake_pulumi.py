"""A `pulumi` on PATH that answers as a test says and notes how it was called."""

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

# What `pulumi stack export` prints of a stack without resources.
EMPTY_STATE = '{"version": 3, "deployment": {}}'
_PROGRAM = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
call = [word for word in sys.argv[1:] if word != "--non-interactive"]
if call == ["version"]:
    sys.exit(print({version!r}))
text = sys.stdin.read() if call[:2] == ["config", "set"] else ""
with (folder / "runs").open("a") as runs:
    print(json.dumps([call, dict(os.environ), text]), file=runs)
answers = json.loads((folder / "answers.json").read_text())
output, errors, status = answers.get(" ".join(call[:2]), answers.get(call[0], ["", "", 0]))
sys.stdout.write(output)
sys.stderr.write(errors)
sys.exit(status)
"""


class Run(NamedTuple):
    """One run of the command: its arguments, its environment, and what `config set` was told."""

    call: list[str]
    environment: dict[str, str]
    text: str


@dataclass
class FakePulumi:
    """The command.

    Args:
        folder: Its folder, for PATH.
        version: What it says that it is.
        answers: Standard output, standard error and exit status by the first word of the call, or by the
            first two. By default a stack has no resources.
    """

    folder: Path
    version: str = "v3.999.0"
    answers: dict[str, tuple[str, str, int]] = field(
        default_factory=lambda: {"stack export": (EMPTY_STATE, "", 0)}
    )

    def __post_init__(self) -> None:
        program = self.folder / "pulumi"
        program.write_text(
            _PROGRAM.format(python=shlex.quote(sys.executable), folder=str(self.folder), version=self.version)
        )
        program.chmod(0o755)
        self.answer()

    def answer(self, **answers: tuple[str, str, int]) -> None:
        """Sets what it answers from now on."""
        self.answers.update(answers)
        (self.folder / "answers.json").write_text(json.dumps(self.answers))

    @property
    def runs(self) -> list[Run]:
        """Every run but those that asked for the version."""
        file = self.folder / "runs"
        return [Run(*json.loads(line)) for line in file.read_text().splitlines()] if file.exists() else []

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each run."""
        return [run.call for run in self.runs]

    def called(self, word: str) -> list[list[str]]:
        """The arguments of the runs that began with a word."""
        return [call for call in self.calls if call[0] == word]
