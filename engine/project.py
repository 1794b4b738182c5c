"""The files of the Pulumi project: its name, its stacks."""

import difflib
import json
from pathlib import Path
from typing import Any, Final

import yaml

from engine.errors import EngineError

ROOT: Final = Path(__file__).resolve().parents[1]
PROJECT_FILE: Final = ROOT / "Pulumi.yaml"


def known_stacks(checkout: Path = ROOT) -> list[str]:
    """Stacks with a committed stack file."""
    return sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in checkout.glob("Pulumi.*.yaml"))


def require_stack(stack: str, checkout: Path = ROOT) -> None:
    """Raises EngineError for a stack that has no stack file."""
    known = known_stacks(checkout)
    if stack not in known:
        raise EngineError(f"there is no stack {in_a_line(stack)}; known: {', '.join(known) or 'none'}")


def in_a_line(name: str) -> str:
    """A name, in quotes where it would disturb the line that it is put into."""
    return name if name.isprintable() else ascii(name)


def stack_file(stack: str, checkout: Path = ROOT) -> dict[str, Any]:
    """The configuration in a stack file, by full key; encrypted values as the file has them.

    Raises:
        EngineError: When there is no such file, or the engine could not read it.
    """
    path = checkout / f"Pulumi.{stack}.yaml"
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _EachOnce) or {}
        values = content.get("config") or {} if isinstance(content, dict) else None
        if isinstance(values, dict) and all(isinstance(key, str) for key in values):
            # An alias inside its own anchor has no end; nobody can write it down.
            json.dumps(values, default=str)
            broken = [key for key, value in values.items() if _is_broken_secret(value)]
            if not broken:
                return values
            trouble = f"{broken[0]}: `secure:` is followed by what `pulumi config set --secret` writes"
        else:
            trouble = "`config:` with keys and values below it is expected"
    except yaml.MarkedYAMLError as error:
        # Not the error's own text: it repeats the line.
        trouble = f"line {error.problem_mark.line + 1 if error.problem_mark else '?'}: {error.problem}"
    except RecursionError:
        trouble = "its brackets are nested too deeply"
    except (OSError, ValueError, yaml.YAMLError) as error:
        trouble = " ".join(str(getattr(error, "strerror", error)).split())
    raise EngineError(f"{path.name} cannot be read ({trouble}); `git diff {path.name}` says what was changed")


def _is_broken_secret(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"secure"} and not isinstance(value["secure"], str)


class _EachOnce(yaml.SafeLoader):
    """Refuses a key that stands twice, as the engine does; PyYAML takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.MarkedYAMLError(None, None, f"{key} stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def project_name() -> str:
    """Name of the Pulumi project."""
    return yaml.safe_load(PROJECT_FILE.read_text())["name"]


def parse_override(text: str) -> tuple[str, str]:
    """Splits `key=value`; the value may hold further equal signs."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise EngineError(f"--set {text}: write key=value")
    return key, value


def near(name: str, names: list[str]) -> str:
    """The end of a message about an unknown name: what comes close, or everything there is."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(sorted(names))}"
