"""A `pulumi` on PATH that answers as a test says and notes how it was called."""

import json
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PROGRAM = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
call = [word for word in sys.argv[1:] if word != "--non-interactive"]
if call == ["version"]:
    sys.exit(print({version!r}))
with (folder / "calls").open("a") as calls:
    calls.write(json.dumps(call) + "\\n")
with (folder / "environments").open("a") as environments:
    environments.write(json.dumps(dict(os.environ)) + "\\n")
if call[:2] == ["config", "set"]:
    (folder / "input").write_text(sys.stdin.read())
answer = json.loads((folder / "answers.json").read_text()).get(call[0], ["", "", 0])
sys.stdout.write(answer[0])
sys.stderr.write(answer[1])
sys.exit(answer[2])
"""


@dataclass
class FakePulumi:
    """The command.

    Args:
        folder: Where it lives; to be put on PATH.
        version: What it says that it is.
        answers: Standard output, standard error and exit status by the first word of the call.
    """

    folder: Path
    version: str = "v3.999.0"
    answers: dict[str, tuple[str, str, int]] = field(default_factory=dict)

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
    def calls(self) -> list[list[str]]:
        """Its arguments, call by call."""
        return self._noted("calls")

    @property
    def environments(self) -> list[dict[str, str]]:
        """Its environment, call by call."""
        return self._noted("environments")

    @property
    def text(self) -> str:
        """What `config set` was told on its standard input."""
        return (self.folder / "input").read_text()

    def _noted(self, name: str) -> list[Any]:
        file = self.folder / name
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
