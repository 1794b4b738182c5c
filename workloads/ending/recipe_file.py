"""Recipes as files: found by name or path, read from YAML, and all their mistakes told in one line."""

import difflib
import re
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from yaml.constructor import ConstructorError

M = TypeVar("M", bound=BaseModel)


class RecipeError(ValueError):
    """Something in a recipe that the user can correct; the message is one line and says how."""


def find(name_or_path: str, shipped: Path) -> Path:
    """The file of a recipe: that of a name in the folder `shipped`, or what ends in .yaml or has a slash."""
    if name_or_path.endswith((".yaml", ".yml")) or "/" in name_or_path:
        path = Path(name_or_path)
        if not path.is_file():
            raise RecipeError(f"recipe file {path} does not exist")
        return path
    path = shipped / f"{name_or_path}.yaml"
    if not path.is_file():
        known = sorted(recipe.stem for recipe in shipped.glob("*.yaml"))
        raise RecipeError(
            f"there is no recipe {name_or_path!r}{did_you_mean(name_or_path, known)}; "
            f"shipped are {', '.join(known)}, any other is given by its path"
        )
    return path


def load(path: Path) -> Any:
    """What the file says."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"recipe {path} cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise RecipeError(f"recipe {path} is not valid YAML: {' '.join(str(error).split())}") from error


def parsed(text: str) -> Any:
    """The value of an override, as in a file."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError:
        return text


def checked(kind: type[M], tree: Any, path: Path, problems: list[str]) -> M:
    """The recipe that the file at `path` says; raises RecipeError with `problems` and every other mistake."""
    try:
        recipe = kind.model_validate(tree)
    except ValidationError as error:
        problems = [*problems, *_told(error, kind)]
    if problems:
        raise RecipeError(f"recipe {path}: " + "; ".join(problems))
    return recipe


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _told(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """What pydantic found, a line each, in the words of the file."""
    for each in error.errors():
        key, value = ".".join(map(str, each["loc"])), each["input"]
        if each["type"] == "extra_forbidden":
            section: Any = kind
            for part in each["loc"][:-1]:
                section = section.model_fields[part].annotation
            yield f"unknown key {key}{did_you_mean(str(each['loc'][-1]), section.model_fields)}"
        elif each["type"] == "missing":
            yield f"{key} is missing"
        elif each["type"] == "value_error":
            yield f"{key} {each['ctx']['error']}".strip()
        elif each["type"] == "model_type":
            yield f"{key or 'the file'} must be a mapping of keys, not {value!r}"
        else:
            message = each["msg"].replace("Input should be", "must be").replace("tuple", "list")
            yield f"{key} {message}, not {value!r}"


class _Loader(yaml.CSafeLoader):
    """Rejects a key that is given twice, of which PyYAML keeps the last, and reads 2e-4 as a number."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


# As YAML 1.2 has it; PyYAML takes a learning rate of 2e-4 for a text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)
