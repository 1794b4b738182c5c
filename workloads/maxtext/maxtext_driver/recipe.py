"""Recipes: MaxText's own settings and the compiler's flags for one training, read from YAML.

Nothing heavy is imported here. Whether MaxText knows a setting is for MaxText to say: `configuration`.
"""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from yaml.constructor import ConstructorError

from .errors import InputError  # the Pulumi program loads recipes as workloads.maxtext.maxtext_driver

RECIPES = Path(__file__).parent / "recipes"

# Settings that come from the command line or follow from it.
DRIVER_SETTINGS = frozenset(
    {
        "base_config",
        "base_output_directory",
        "compile_topology",
        "compile_topology_num_slices",
        "enable_autocheckpoint",
        "enable_checkpointing",
        "hardware",
        "log_config",
        "metrics_file",
        "run_name",
        "skip_jax_distributed_system",
    }
)
# MaxText gives these to a compilation that training does not use; libtpu_flags reach both.
MISLEADING_SETTINGS = {"compile_xla_flags": "has no effect on the trained step; use libtpu_flags"}


def _checked_flag(flag: str) -> str:
    if not re.fullmatch(r"--[A-Za-z0-9_]+=\S+", flag):
        raise ValueError(f"libtpu flag {flag!r} must be --name=value")
    return flag


class Recipe(BaseModel):
    """Everything that decides the result of a run, except how many chips take part."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    extends: str | None = Field(
        None,
        description="A recipe, by name or path, whose settings and flags these are added to, or replace.",
    )
    maxtext: dict[str, Any] = Field(
        {},
        validate_default=True,
        description="Settings as in MaxText's configs/base.yml; others are MaxText's default.",
    )
    libtpu_flags: tuple[Annotated[str, AfterValidator(_checked_flag)], ...] = Field(
        (), description="Options of the TPU compiler, each as --name=value."
    )

    @field_validator("maxtext")
    @classmethod
    def _settings_make_sense(cls, settings: dict[str, Any]) -> dict[str, Any]:
        if problems := list(_setting_problems(settings)):
            raise ValueError("; ".join(problems))
        return settings

    @field_validator("libtpu_flags")
    @classmethod
    def _last_wins(cls, flags: tuple[str, ...]) -> tuple[str, ...]:
        return tuple({flag.partition("=")[0]: flag for flag in flags}.values())

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.maxtext["steps"]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are written beside a run."""
        return {"maxtext": dict(self.maxtext), "libtpu_flags": list(self.libtpu_flags)}


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or any file by path (it ends in .yaml or contains a slash).

    A recipe may extend another one: its settings and flags are then added to those, or replace them.
    `overrides` are KEY=VALUE with a setting of MaxText, for example steps=200, and take the place of what the
    file says. Raises InputError with every problem at once.
    """
    path = _find(name_or_path)
    tree = _merged(path, ())
    problems: list[str] = []
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            problems.append(f"{override!r} must be KEY=VALUE, for example steps=200")
        elif isinstance(tree.setdefault("maxtext", {}), dict):
            tree["maxtext"][key] = _parsed(value)
    try:
        recipe = Recipe.model_validate(tree)
    except ValidationError as error:
        problems += _told(error)
    if problems:
        raise InputError(f"recipe {path}: " + "; ".join(problems))
    return recipe


def shipped_recipes() -> list[str]:
    """Names of the recipes beside this file."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _find(name_or_path: str) -> Path:
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            raise InputError(f"recipe file {path} does not exist")
        return path
    path = RECIPES / f"{name_or_path}.yaml"
    if not path.is_file():
        known = shipped_recipes()
        raise InputError(
            f"there is no recipe {name_or_path!r}{did_you_mean(name_or_path, known)}; "
            f"shipped are {', '.join(known)}, any other is given by its path"
        )
    return path


def _merged(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    """The file's sections on top of those of the recipe that it extends."""
    tree = _load(path)
    if not isinstance(tree, dict):
        raise InputError(f"recipe {path} must be a mapping with the section maxtext")
    name = tree.get("extends")
    if not isinstance(name, str):
        return tree
    chain, below = (*extended_by, path.resolve()), _find(name)
    if below.resolve() in chain:
        raise InputError(f"recipe {path} extends {name}, which extends it in turn")
    del tree["extends"]
    base = _merged(below, chain)
    return {**base, **{section: _joined(base.get(section), own) for section, own in tree.items()}}


def _joined(below: Any, own: Any) -> Any:
    """Settings or flags on top of others; what is neither is left for the model to reject."""
    if isinstance(below, dict) and isinstance(own, dict):
        return {**below, **own}
    return [*below, *own] if isinstance(below, list) and isinstance(own, list) else own


def _load(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_NoDuplicates)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error


class _NoDuplicates(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys without a word; a recipe must not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _setting_problems(settings: dict[str, Any]) -> Iterable[str]:
    for key, value in settings.items():
        if key in DRIVER_SETTINGS:
            yield f"{key} is set by the driver, from its command line"
        elif key in MISLEADING_SETTINGS:
            yield f"{key} {MISLEADING_SETTINGS[key]}"
        elif value is None:
            yield f"{key} has no value"
    yield from (f"{key} is missing" for key in ("model_name", "steps") if key not in settings)
    steps = settings.get("steps", 1)
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        yield f"steps must be a whole number greater than 0, not {steps!r}"


def _told(error: ValidationError) -> Iterator[str]:
    """What pydantic found, a line each, in the words of the file."""
    for each in error.errors():
        key = ".".join(map(str, each["loc"]))
        if each["type"] == "extra_forbidden":
            yield f"unknown section {key}{did_you_mean(key, Recipe.model_fields)}"
        elif each["type"] == "value_error":
            yield str(each["ctx"]["error"])
        else:
            message = each["msg"].replace("Input should be", "must be").replace("tuple", "list")
            yield f"{key} {message}"


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_NoDuplicates)
    except yaml.YAMLError:
        return text
