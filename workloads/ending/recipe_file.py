"""Recipes as files: finds them by name or path, reads YAML, and lists all mistakes in one line."""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError

M = TypeVar("M", bound=BaseModel)


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
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error


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
                for part in place[:-1]:
                    section = section_in(section.model_fields[part].annotation)
                yield f"unknown key {key}{did_you_mean(str(place[-1]), section.model_fields)}"
            case "missing":
                yield f"{key} is missing"
            case "value_error":
                yield f"{key} {mistake['ctx']['error']}".strip()
            case "model_type":
                yield f"{key or 'the file'} must be a mapping of keys, not {value!r}"
            case _:
                message = mistake["msg"].replace("Input should be", "must be").replace("tuple", "list")
                yield f"{key} {message}, not {value!r}"


class _Loader(yaml.CSafeLoader):
    """Rejects a key that is given twice, where PyYAML keeps the last one, and reads 2e-4 as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# As in YAML 1.2. PyYAML takes a learning rate of 2e-4 for a text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)
