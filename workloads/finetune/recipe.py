"""Recipes: what is trained on what and how, read from YAML into frozen dataclasses.

Nothing heavy is imported here, so a wrong key is reported in a fraction of a second.
"""

import difflib
import string
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from yaml.constructor import ConstructorError

from .errors import InputError  # the Pulumi program loads recipes as workloads.finetune

RECIPES = Path(__file__).parent / "recipes"


def _above(limit: float, default: Any = MISSING) -> Any:
    """A number greater than `limit`; required unless it has a default."""
    return field(metadata={"above": limit}, default=default)


def _from(lowest: float, below: float = float("inf"), default: Any = MISSING) -> Any:
    """A number at or over `lowest` and under `below`; required unless it has a default."""
    return field(metadata={"lowest": lowest, "below": below}, default=default)


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

    `fields` names the placeholders of `prompt` and the column each is filled from; `reply` and `image` are
    columns, and without `image` the conversation is text. `rows` are drawn for training (None: all) and
    `test_rows` more are held out for evaluation, both with the training's seed.
    """

    name: str
    split: str
    rows: int | None = _above(0, default=None)
    test_rows: int = _from(0, default=0)
    image: str | None = None
    reply: str
    fields: dict[str, str]
    system: str | None = None
    prompt: str

    @property
    def columns(self) -> list[str]:
        """Every column the data set must have."""
        return [*self.fields.values(), self.reply, *([self.image] if self.image else [])]


@dataclass(frozen=True, kw_only=True)
class Training:
    """Length, batch, optimizer and what is written on the way (counts in optimizer steps).

    `batch_size` counts rows, or with `packing` sequences of up to `max_length` tokens, per process. Text rows
    of more than `max_length` tokens are left out. Evaluation, where there are test rows, comes at the end and
    every `evaluate_every_steps`. `fsdp2` shards the base model over the processes. The `model` result is the
    base model with the adapter merged into it, beside the adapter.
    """

    epochs: int = _above(0)
    batch_size: int = _above(0)
    accumulation_steps: int = _above(0)
    packing: bool = False
    max_length: int | None = _above(0, default=None)
    learning_rate: float = _above(0)
    schedule: Literal["constant", "linear", "cosine"]
    optimizer: Literal["adamw_torch_fused", "adamw_torch"]
    max_grad_norm: float = _above(0)
    gradient_checkpointing: bool
    sharding: Literal["none", "fsdp2"] = "none"
    seed: int = _from(0)
    loader_processes: int = _from(0)
    log_every_steps: int = _above(0)
    evaluate_every_steps: int | None = _above(0, default=None)
    save_every_steps: int = _above(0)
    checkpoints_to_keep: int = _above(0)
    result: Literal["adapter", "model"] = "adapter"


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


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or any file by path (it ends in .yaml or contains a slash).

    `overrides` are KEY=VALUE with a dotted key, for example training.epochs=1, and take the place of what the
    file says. Raises InputError with every problem at once.
    """
    path = _find(name_or_path)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_NoDuplicates)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error
    problems: list[str] = []
    for override in overrides:
        _override(tree, override, problems)
    recipe = _section(Recipe, tree, "", problems)
    if recipe and not problems:
        problems = [*_placeholder_problems(recipe.data), *_contradictions(recipe)]
    if problems:
        raise InputError(f"recipe {path}: " + "; ".join(problems))
    return recipe


def with_defaults(tree: Any, kind: type[Any] = Recipe) -> Any:
    """A recipe as an earlier version of this package wrote it, with the keys that have come since."""
    if not isinstance(tree, dict):
        return tree
    hints = typing.get_type_hints(kind)
    filled = dict(tree)
    for item in fields(kind):
        if is_dataclass(hints[item.name]):
            filled[item.name] = with_defaults(tree.get(item.name), typing.cast(type, hints[item.name]))
        elif item.default is not MISSING:
            filled.setdefault(item.name, item.default)
    return filled


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
        elif item.default is MISSING:
            problems.append(f"missing key {prefix}{name} ({_describe(hints[name])})")
    return kind(**values) if len(problems) == before else None


def _value(
    hint: Any, value: object, key: str, limits: typing.Mapping[str, float], problems: list[str]
) -> Any:
    if is_dataclass(hint):
        return _section(typing.cast(type, hint), value, f"{key}.", problems)
    if value is None and _may_be_nothing(hint):
        return None
    hint = _something(hint)
    if not _is_a(hint, value):
        problems.append(f"{key} must be {_describe(hint)}, not {_kind_of(value)}{_number_hint(hint, value)}")
    elif isinstance(value, str) and not value.strip():
        problems.append(f"{key} is empty")
    elif isinstance(value, int | float):
        problems.extend(_out_of_range(key, value, limits))
    return float(typing.cast(float, value)) if hint is float and _is_a(float, value) else value


def _may_be_nothing(hint: Any) -> bool:
    return isinstance(hint, types.UnionType) and types.NoneType in typing.get_args(hint)


def _something(hint: Any) -> Any:
    """`int` of `int | None`."""
    return typing.get_args(hint)[0] if _may_be_nothing(hint) else hint


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


def _contradictions(recipe: Recipe) -> Iterable[str]:
    """Settings that are right one by one and make no sense together."""
    model, data, training = recipe.model, recipe.data, recipe.training
    if data.image and training.packing:
        yield "training.packing packs text; with data.image it must be false"
    if data.image and training.max_length is not None:
        yield "training.max_length counts tokens of text; with data.image it must be left out"
    if training.packing and training.max_length is None:
        yield "training.packing needs training.max_length, the tokens of a packed sequence"
    if training.evaluate_every_steps is not None and not data.test_rows:
        yield "training.evaluate_every_steps needs data.test_rows to evaluate on"
    if training.sharding == "fsdp2" and model.quantization == "nf4":
        # https://github.com/huggingface/accelerate/pull/3987: 4-bit weights are left out of the sharding.
        yield "training.sharding fsdp2 cannot shard nf4 weights; model.quantization must be none"


def _override(tree: object, text: str, problems: list[str]) -> None:
    """Put KEY=VALUE into the tree of a recipe; on a problem note it."""
    key, equals, value = text.partition("=")
    if not equals:
        problems.append(f"{text!r} must be KEY=VALUE, for example training.epochs=1")
        return
    path = key.split(".")
    kind: Any = Recipe
    for number, part in enumerate(path):
        known = typing.get_type_hints(kind) if is_dataclass(kind) else {}
        if part not in known and typing.get_origin(kind) is not dict:
            problems.append(f"unknown key {'.'.join(path[: number + 1])}{_did_you_mean(part, known)}")
            return
        kind = known.get(part, str)
    for part in path[:-1]:
        tree = tree.setdefault(part, {}) if isinstance(tree, dict) else None
    if isinstance(tree, dict):
        tree[path[-1]] = _parsed(kind, value)


def _parsed(hint: Any, text: str) -> Any:
    """The value of an override: a text as it stands, anything else as in the file."""
    if _may_be_nothing(hint) and text in ("null", ""):
        return None
    if _something(hint) is str:
        return text
    if _something(hint) is float:
        try:
            return float(text)  # 1e-4 too, which YAML takes for a text
        except ValueError:
            return text
    try:
        return yaml.load(text, Loader=_NoDuplicates)
    except yaml.YAMLError:
        return text


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _describe(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(hint)))
    if typing.get_origin(hint) is dict:
        return "a mapping of names to texts"
    if _may_be_nothing(hint):
        return _describe(_something(hint))
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
