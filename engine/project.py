"""Reads the files of the Pulumi project: its name and its stack files."""

import copy
import difflib
import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from engine.errors import EngineError

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT_FILE: Final = ROOT / "Pulumi.yaml"


def known_stacks(checkout: Path = ROOT) -> list[str]:
    """The stacks that have a stack file in a checkout."""
    return sorted(stack_files(checkout))


def stack_files(checkout: Path) -> dict[str, Path]:
    """The stack files of a checkout, by the name of the stack."""
    return {path.name[len("Pulumi.") : -len(".yaml")]: path for path in checkout.glob("Pulumi.*.yaml")}


def require_stack(stack: str, checkout: Path = ROOT) -> None:
    """Raises EngineError for a stack that has no stack file."""
    known = known_stacks(checkout)
    if stack not in known:
        raise EngineError(f"there is no stack {in_a_line(stack)}; known: {', '.join(known) or 'none'}")


def in_a_line(name: str) -> str:
    """A name that fits into one line of a message. A name with control characters is quoted and escaped."""
    return name if name.isprintable() else ascii(name)


def stack_file(stack: str, checkout: Path = ROOT) -> dict[str, Any]:
    """The configuration in a stack file, by full key. Encrypted values stay encrypted.

    Raises:
        EngineError: If there is no such file, or the engine cannot read it.
    """
    path = stack_files(checkout).get(stack, checkout / f"Pulumi.{stack}.yaml")
    try:
        return copy.deepcopy(_configuration_in(path.read_text(encoding="utf-8")))
    except _StackFileError as error:
        problem = str(error)
    except yaml.MarkedYAMLError as error:
        # The error's own text repeats the line, which may hold a secret.
        problem = f"line {error.problem_mark.line + 1 if error.problem_mark else '?'}: {error.problem}"
    except RecursionError:
        problem = "its brackets are nested too deeply"
    except (OSError, ValueError, yaml.YAMLError) as error:
        problem = " ".join(str(getattr(error, "strerror", error)).split())
    raise EngineError(f"{path.name} cannot be read ({problem}); `git diff {path.name}` says what was changed")


class _StackFileError(Exception):
    """A stack file has another form than the engine expects."""


@cache  # a command asks for the same few stack files many times
def _configuration_in(text: str) -> dict[str, Any]:
    """The value of `config:` in the text of a stack file."""
    content = yaml.load(text, _UniqueKeyLoader) or {}
    values = content.get("config") or {} if isinstance(content, dict) else None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise _StackFileError("`config:` with keys and values below it is expected")
    # An alias inside its own anchor has no end: this raises ValueError.
    json.dumps(values, default=str)
    for key, value in values.items():
        if isinstance(value, dict) and value.keys() == {"secure"} and not isinstance(value["secure"], str):
            raise _StackFileError(f"{key}: `secure:` is followed by what `pulumi config set --secret` writes")
    return values


class _UniqueKeyLoader(yaml.SafeLoader):
    """Rejects a key that occurs twice in a mapping, as the engine does. PyYAML alone uses the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(None, None, f"{key} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


@cache
def project_name() -> str:
    """The name of the Pulumi project."""
    return yaml.safe_load(PROJECT_FILE.read_text())["name"]


def parse_override(text: str) -> tuple[str, str]:
    """Splits `key=value`. The value may contain equal signs."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise EngineError(f"--set {text}: write key=value")
    return key, value


def near(name: str, names: list[str]) -> str:
    """The end of a message about an unknown name: similar names, or all names if none is similar."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(sorted(names))}"
