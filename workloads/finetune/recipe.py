"""Recipes: what is trained on what and how, read from YAML into frozen dataclasses.

Nothing heavy is imported here, so a wrong key is reported in a fraction of a second.
"""

import difflib
import string
import typing
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from yaml.constructor import ConstructorError

from .errors import InputError  # the Pulumi program loads recipes as workloads.finetune

RECIPES = Path(__file__).parent / "recipes"


def _above(limit: float) -> Any:
    """A required number greater than `limit`."""
    return field(metadata={"above": limit})


def _from(lowest: float, below: float = float("inf")) -> Any:
    """A required number at or over `lowest` and under `below`."""
    return field(metadata={"lowest": lowest, "below": below})


@dataclass(frozen=True, kw_only=True)
class Model:
    """The base model: a Hugging Face id or a directory, and how its weights are held."""

    name: str
    quantization: Literal["nf4", "none"]
    precision: Literal["bf16", "fp32"]


@dataclass(frozen=True, kw_only=True)
class Lora:
    """The adapter: rank, scale, dropout, and a regular expression over full module names."""

    rank: int = _above(0)
    alpha: int = _above(0)
    dropout: float = _from(0, below=1)
    target_modules: str


@dataclass(frozen=True, kw_only=True)
class Data:
    """The rows, and the columns that become a conversation.

    `fields` names the placeholders of `prompt` and the column each is filled from; `image` and `reply` are
    columns.
    """

    name: str
    split: str
    image: str
    reply: str
    fields: dict[str, str]
    system: str
    prompt: str

    @property
    def columns(self) -> list[str]:
        """Every column the data set must have."""
        return [*self.fields.values(), self.reply, self.image]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Length, batch, optimizer and what is written on the way (counts in optimizer steps)."""

    epochs: int = _above(0)
    batch_size: int = _above(0)
    accumulation_steps: int = _above(0)
    learning_rate: float = _above(0)
    schedule: Literal["constant", "linear", "cosine"]
    optimizer: Literal["adamw_torch_fused", "adamw_torch"]
    max_grad_norm: float = _above(0)
    gradient_checkpointing: bool
    seed: int = _from(0)
    loader_processes: int = _from(0)
    log_every_steps: int = _above(0)
    save_every_steps: int = _above(0)
    checkpoints_to_keep: int = _above(0)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the result of a run, except how many processes take part."""

    model: Model
    lora: Lora
    data: Data
    training: Training

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are written beside a run."""
        return asdict(self)


def load_recipe(name_or_path: str) -> Recipe:
    """Read a shipped recipe by name, or any file by path (it ends in .yaml or contains a slash).

    Raises InputError with every problem of the file at once.
    """
    path = _find(name_or_path)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_NoDuplicates)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error
    problems: list[str] = []
    recipe = _section(Recipe, tree, "", problems)
    if not problems:
        problems = _placeholder_problems(recipe.data)
    if problems:
        raise InputError(f"recipe {path}: " + "; ".join(problems))
    return recipe


def _find(name_or_path: str) -> Path:
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            raise InputError(f"recipe file {path} does not exist")
        return path
    path = RECIPES / f"{name_or_path}.yaml"
    if not path.is_file():
        known = sorted(recipe.stem for recipe in RECIPES.glob("*.yaml"))
        raise InputError(
            f"there is no recipe {name_or_path!r}{_did_you_mean(name_or_path, known)}; "
            f"shipped are {', '.join(known)}, any other is given by its path"
        )
    return path


class _NoDuplicates(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a recipe must not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _section(kind: type[Any], tree: object, prefix: str, problems: list[str]) -> Any:
    """Build one dataclass from a mapping; on a problem note it and return None."""
    if not isinstance(tree, dict):
        problems.append(f"{prefix.rstrip('.') or 'the file'} must be a mapping of keys, not {_kind_of(tree)}")
        return None
    declared = {item.name: item for item in fields(kind)}
    hints = typing.get_type_hints(kind)
    before = len(problems)
    for key in tree:
        if key not in declared:
            problems.append(f"unknown key {prefix}{key}{_did_you_mean(str(key), declared)}")
    values = {}
    for name, item in declared.items():
        if name in tree:
            values[name] = _value(hints[name], tree[name], f"{prefix}{name}", item.metadata, problems)
        else:
            problems.append(f"missing key {prefix}{name} ({_describe(hints[name])})")
    return kind(**values) if len(problems) == before else None


def _value(
    hint: Any, value: object, key: str, limits: typing.Mapping[str, float], problems: list[str]
) -> Any:
    if is_dataclass(hint):
        return _section(typing.cast(type, hint), value, f"{key}.", problems)
    if not _is_a(hint, value):
        problems.append(f"{key} must be {_describe(hint)}, not {_kind_of(value)}{_number_hint(hint, value)}")
    elif isinstance(value, str) and not value.strip():
        problems.append(f"{key} is empty")
    elif isinstance(value, int | float):
        problems.extend(_out_of_range(key, value, limits))
    return float(typing.cast(float, value)) if hint is float and _is_a(float, value) else value


def _is_a(hint: Any, value: object) -> bool:
    if typing.get_origin(hint) is Literal:
        return value in typing.get_args(hint)
    if typing.get_origin(hint) is dict:
        return isinstance(value, dict) and all(
            isinstance(part, str) for pair in value.items() for part in pair
        )
    if isinstance(value, bool):
        return hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def _out_of_range(key: str, value: float, limits: typing.Mapping[str, float]) -> Iterable[str]:
    if "above" in limits and not value > limits["above"]:
        yield f"{key} must be greater than {limits['above']}, not {value}"
    if "lowest" in limits and not limits["lowest"] <= value < limits["below"]:
        upper = "" if limits["below"] == float("inf") else f" and below {limits['below']}"
        yield f"{key} must be at least {limits['lowest']}{upper}, not {value}"


def _placeholder_problems(data: Data) -> list[str]:
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(data.prompt) if name is not None}
    except ValueError as error:
        return [f"data.prompt is not a valid template: {error} (write {{{{ and }}}} for braces)"]
    unnamed = [
        f"data.prompt uses {{{name}}}, which data.fields does not name{_did_you_mean(name, data.fields)}"
        for name in sorted(used - set(data.fields))
    ]
    return unnamed + [
        f"data.fields.{name} is not used in data.prompt" for name in sorted(set(data.fields) - used)
    ]


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) is dict:
        return "a mapping of names to texts"
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(hint, "a section")


def _kind_of(value: object) -> str:
    if value is None:
        return "nothing"
    return "a list" if isinstance(value, list) else "a section" if isinstance(value, dict) else repr(value)


def _number_hint(hint: Any, value: object) -> str:
    """YAML 1.1 reads 2e-4 as a text, a classic of learning rates."""
    if hint is not float or not isinstance(value, str):
        return ""
    try:
        return f" (write {float(value)!r} or {float(value):.1e})"
    except ValueError:
        return ""
