"""Recipes: MaxText's own settings and the compiler's flags for one training, read from YAML.

Nothing heavy is imported here. Whether MaxText knows a setting is for MaxText to say: `configuration`.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
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

_LIBTPU_FLAG = re.compile(r"--[A-Za-z0-9_]+=\S+")
_SECTIONS = ("extends", "libtpu_flags", "maxtext")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides the result of a run, except how many chips take part.

    `maxtext` holds settings as in MaxText's configs/base.yml; what it does not hold is MaxText's default.
    `libtpu_flags` are options of the TPU compiler, each as --name=value.
    """

    maxtext: dict[str, Any]
    libtpu_flags: tuple[str, ...] = ()

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
    problems: list[str] = []
    recipe = _read(path, problems, ())
    settings = dict(recipe.maxtext)
    for override in overrides:
        key, equals, value = override.partition("=")
        if equals and key:
            settings[key] = _parsed(value)
        else:
            problems.append(f"{override!r} must be KEY=VALUE, for example steps=200")
    problems.extend(_setting_problems(settings))
    if problems:
        raise InputError(f"recipe {path}: " + "; ".join(problems))
    return Recipe(maxtext=settings, libtpu_flags=recipe.libtpu_flags)


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


def _read(path: Path, problems: list[str], extended_by: tuple[Path, ...]) -> Recipe:
    """The file's recipe on top of the one it extends; what is wrong is noted and left out."""
    tree = _load(path)
    if not isinstance(tree, dict):
        raise InputError(f"recipe {path} must be a mapping with the section maxtext")
    problems.extend(
        f"unknown section {key}{did_you_mean(str(key), _SECTIONS)}" for key in tree if key not in _SECTIONS
    )
    settings, flags = tree.get("maxtext"), tree.get("libtpu_flags", [])
    if not isinstance(settings, dict):
        problems.append("section maxtext must be a mapping of MaxText's settings")
        settings = {}
    if not isinstance(flags, list):
        problems.append("section libtpu_flags must be a list of --name=value")
        flags = []
    problems.extend(
        f"libtpu flag {flag!r} must be --name=value"
        for flag in flags
        if not (isinstance(flag, str) and _LIBTPU_FLAG.fullmatch(flag))
    )
    base = _base(path, tree.get("extends"), problems, extended_by)
    return Recipe(
        maxtext={**base.maxtext, **settings},
        libtpu_flags=tuple({_flag_name(flag): str(flag) for flag in (*base.libtpu_flags, *flags)}.values()),
    )


def _base(path: Path, name: Any, problems: list[str], extended_by: tuple[Path, ...]) -> Recipe:
    if name is None:
        return Recipe(maxtext={})
    if not isinstance(name, str):
        problems.append("extends must be the name of a shipped recipe or a path")
        return Recipe(maxtext={})
    chain = (*extended_by, path.resolve())
    base = _find(name)
    if base.resolve() in chain:
        raise InputError(f"recipe {path} extends {name}, which extends it in turn")
    return _read(base, problems, chain)


def _load(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_NoDuplicates)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error


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


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, Loader=_NoDuplicates)
    except yaml.YAMLError:
        return text


def _flag_name(flag: Any) -> str:
    return str(flag).partition("=")[0]
