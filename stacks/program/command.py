"""The command of a person's own program: what a container can run, and what would not hear SIGTERM."""

import json
import re
import shlex
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

# Commands that start a process for each GPU by themselves.
_LAUNCHERS: Final = ("torchrun", "accelerate", "deepspeed")
_LAUNCHER_MODULES: Final = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch")
# Options with which accelerate has one training on several machines that have one GPU each.
_TOGETHER: Final = ("--multi_gpu", "--use_fsdp", "--use_deepspeed", "--use_megatron_lm", "--config_file")
_FORCE_TORCHRUN: Final = "FORCE_TORCHRUN"
_SHELLS: Final = ("sh", "bash", "dash", "zsh", "ash")
_OPERATORS: Final = re.compile(r"&&|\|\||[;|&\n]")
_SCRIPT: Final = 'write a file such as run.sh whose last line begins with exec, and set ["sh", "run.sh"]'


def check_command(command: Sequence[str]) -> None:
    """Checks a command.

    Raises:
        ValueError: If it is empty or a text, or if a shell would keep SIGTERM from the program.
    """
    if not command or not command[0].strip():
        raise ValueError('the command is empty; name a program, such as ["python", "train.py"]')
    first = command[0]
    if len(command) == 1 and len(first.split()) > 1:
        raise ValueError(_of_text(first))
    if first.startswith("-"):
        raise ValueError(f"{first!r} is an option; the first word is the program, such as python")
    script = _script(command)
    if script is None:
        return
    *_, last = [part.strip() for part in _OPERATORS.split(script) if part.strip()] or [""]
    if not last.startswith("exec "):
        raise ValueError(
            f"{first} does not pass SIGTERM on, so the program could not save; begin the last command of the "
            f"script with exec, or {_SCRIPT}"
        )


def launches_itself(command: Sequence[str]) -> str:
    """The name of the launcher with which a command begins, empty without one."""
    words = [PurePosixPath(word).name for word in command[:3]]
    program, *rest = words or [""]
    if program in _LAUNCHERS:
        return program
    runs_module = program.startswith("python") and rest[:1] == ["-m"]
    return rest[1] if runs_module and rest[1:] and rest[1] in _LAUNCHER_MODULES else ""


def check_several_machines(command: Sequence[str], variables: Collection[str]) -> None:
    """Checks a command that starts on several machines with one GPU each.

    Args:
        variables: Names of the environment variables that the user sets.

    Raises:
        ValueError: If every machine would have a training of its own.
    """
    program = PurePosixPath(command[0]).name
    options = {word.partition("=")[0].replace("-", "_").replace("__", "--", 1) for word in command}
    if program == "accelerate" and not options & {*_TOGETHER}:
        cure = 'write --multi_gpu behind "launch"'
    elif program == "llamafactory-cli" and _FORCE_TORCHRUN not in variables:
        cure = f"run `pulumi config set --path variables.{_FORCE_TORCHRUN} 1`"
    else:
        return
    raise ValueError(
        f"with one GPU on each machine, {program} would start a training of its own on every machine; {cure}"
    )


def _of_text(text: str) -> str:
    """What is wrong with a command that is one text, and the list in its place."""
    if _OPERATORS.search(text):
        return f"{text!r} is a text for a shell, and no shell runs the command; {_SCRIPT}"
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    return f"{text!r} is one word; write the list {json.dumps(words)}"


def _script(command: Sequence[str]) -> str | None:
    """The text that a shell runs. None without a shell, or with a file."""
    if PurePosixPath(command[0]).name not in _SHELLS:
        return None
    for option, text in pairwise(command[1:]):
        if not option.startswith("-"):
            return None
        if re.fullmatch(r"-[a-z]*c", option):
            return text
    return None
