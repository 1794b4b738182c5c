"""Recipes as files: finds them by name or path, reads YAML, and lists all mistakes in one line."""

import difflib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError

M = TypeVar("M", bound=BaseModel)


# Begins a key that is no part of a recipe, and holds what other keys merge by `<<`.
ASIDE = "x-"


class RecipeError(ValueError):
    """A mistake in a recipe that the user can correct. The message is one line and says how."""


def find(name_or_path: str, shipped: Path) -> Path:
    """The file of a recipe, by its name in the folder `shipped`. A path ends in .yaml or has a slash."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            file = path.with_name(f"{path.name}.yaml")
            hint = f" (did you mean {file}?)" if file.is_file() else ""
            raise RecipeError(f"recipe file {path} does not exist{hint}")
        return path
    path = shipped / f"{name_or_path}.yaml"
    if not path.is_file():
        known = sorted(recipe.stem for recipe in shipped.glob("*.yaml"))
        raise RecipeError(
            f"there is no recipe {name_or_path!r}{did_you_mean(name_or_path, known)}; "
            f"shipped are {', '.join(known)}, any other is given by its path, such as ./{name_or_path}.yaml"
        )
    return path


def load(path: Path) -> Any:
    """The content of the file."""
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error
    if isinstance(tree, dict):
        tree = {key: value for key, value in tree.items() if not str(key).startswith(ASIDE)}
    return tree


def parsed(text: str) -> Any:
    """The value of an override, read as YAML."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return text


def checked(kind: type[M], tree: Any, path: Path, problems: list[str]) -> M:
    """The recipe of the file at `path`. Raises RecipeError with `problems` and every other mistake."""
    try:
        recipe = kind.model_validate(tree)
    except ValidationError as error:
        problems = [*problems, *_mistakes(error, kind)]
    if problems:
        raise RecipeError(f"recipe {path}: " + "; ".join(problems))
    return recipe


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or an empty text."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def section_in(kind: Any) -> Any:
    """The model of a section, out of the type of a key that may be None. None for a key of another type."""
    return next((part for part in (kind, *get_args(kind)) if hasattr(part, "model_fields")), None)


def _mistakes(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """The mistakes that pydantic names, in the words of the file."""
    for mistake in error.errors():
        place, value = mistake["loc"], mistake["input"]
        key = ".".join(map(str, place))
        match mistake["type"]:
            case "extra_forbidden":
                section: Any = kind
                # A number is the place in a list of sections.
                for part in (name for name in place[:-1] if isinstance(name, str)):
                    annotation = section.model_fields[part].annotation
                    section = section_in(annotation) or annotation
                hint = did_you_mean(str(place[-1]), section.model_fields) or _aside(key, value)
                yield f"unknown key {key}{hint}"
            case "missing":
                yield f"{key} is missing"
            case "value_error":
                yield f"{key} {mistake['ctx']['error']}".strip()
            case "model_type":
                yield f"{key or 'the file'} must be a mapping of keys, not {value!r}"
            case _:
                message = mistake["msg"].replace("Input should be", "must be").replace("tuple", "list")
                yield f"{key} {message}, not {value!r}"


def _aside(key: str, value: Any) -> str:
    """How to keep values that other keys merge, or an empty text for a key that cannot be meant so."""
    if "." in key or not isinstance(value, dict):
        return ""
    return f" (call it {ASIDE}{key} if it only holds what other keys merge by <<)"


class _Loader(yaml.CSafeLoader):
    """Rejects a key that is given twice, where PyYAML keeps the last one, and reads 2e-4 as a number."""

    def __init__(self, stream: str):
        super().__init__(stream)
        self._read: list[yaml.MappingNode] = []

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        # Merged keys stand beside those that replace them from then on.
        if node not in self._read:
            self._check_keys(node)
            self._read.append(node)
        super().flatten_mapping(node)

    def _check_keys(self, node: yaml.MappingNode) -> None:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)


# As in YAML 1.2. PyYAML takes a learning rate of 2e-4 for a text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)
