"""Recipes, read from YAML into the models of `sections.py`.

Nothing heavy is imported here, so a wrong key is reported in a fraction of a second.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from conversations.reading import may_have_rows
from finetune.settings.contradictions import (
    contradictions,
    for_all_weights,
    given_twice,
    placeholder_problems,
)
from finetune.settings.lora import Lora
from finetune.settings.sections import Data, Evaluation, Model, Training
from finetune.settings.tasks import for_preference, is_task
from finetune.settings.trl_fields import LIGER
from finetune.settings.values import AdapterSource, Section
from shared.recipe_file import checked, find, load, parsed, section_in

RECIPES = Path(__file__).parents[1] / "recipes"
# GPU memory that a step of each recipe takes, as `make gpu-fit` computed it.
FIT = RECIPES / "fit.json"
# The same of the user's own recipes. git ignores it.
OWN_FIT = RECIPES / "own-fit.json"
# Settings of training that a run chooses where the recipe says nothing.
OPEN = ("packing", "max_length", "batch_size", "gradient_checkpointing")
# Begins the name of a data file that is below the run's --storage: a stack uploads files of the user there.
STORAGE = "storage://"


class Recipe(Section):
    """Everything that decides the result of a run, except the number of processes."""

    task: Annotated[Literal["fine-tune", "preference"], BeforeValidator(is_task)] = Field(
        "fine-tune",
        description="What is trained: the replies of the rows, or a preference for one of two replies (DPO).",
    )
    model: Model
    lora: Lora | None = None
    data: Data
    training: Training = Training()
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="before")
    @classmethod
    def _has_defaults_of_all_weights(cls, tree: Any) -> Any:
        return for_all_weights(for_preference(tree))

    @model_validator(mode="after")
    def _makes_sense(self) -> "Recipe":
        problems = [*placeholder_problems(self.data), *contradictions(self)]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def to_dict(self) -> dict[str, Any]:
        """The recipe in plain values, for the record of a run."""
        return self.model_dump()

    @property
    def results(self) -> list[str]:
        """The folders that a run publishes."""
        return ["adapter"] * bool(self.lora) + ["model"] * (self.training.result == "model")

    @property
    def open(self) -> list[str]:
        """The settings of training that the recipe leaves to the run. No length limits rows with pictures.

        One that trains a preference leaves none: it has one recomputed pair a step unless it says more.
        """
        if self.task == "preference":
            return []
        names = [name for name in OPEN if name != "max_length" or not self.data.image]
        return [name for name in names if getattr(self.training, name) is None]

    @property
    def liger(self) -> bool:
        """Whether liger's kernels take the place of the model's layers."""
        return bool(self.training.trl.get(LIGER))

    @property
    def memory_digest(self) -> str:
        """Digest of everything that the GPU memory of a step depends on, except max_length."""
        fills = {"prompt": self.data.prompt, "rows": self.data.title, "image": self.data.image}
        parts = {
            "model": self.model.model_dump(
                include={"name", "quantization", "precision"} | ({"adapter"} if self.model.adapter else set())
            ),
            "lora": self.lora
            and self.lora.model_dump(
                include={"rank", "dropout", "target_modules"}
                | {key for key in ("target_parameters", "use_dora") if getattr(self.lora, key)}
            ),
            "training": self.training.model_dump(
                include={"batch_size", "packing", "optimizer", "gradient_checkpointing", "sharding"}
                | ({"trl"} if self.training.trl else set())
            ),
            **({"task": self.task} if self.task != "fine-tune" else {}),
            # No sequence of text is longer than max_length, so then the rows do not matter.
            "rows": {} if self.training.max_length else fills,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:8]

    def fit_digest(self, memory_gb: float | None) -> str:
        """The same for GPUs with so much memory, by which a run chooses what its recipe leaves open."""
        return f"{self.memory_digest} on {memory_gb} GB" if self.open else self.memory_digest

    @property
    def commits(self) -> dict[str, str | None]:
        """The revision of the model and of the data set, and of the adapter with which the run begins."""
        adapter = {"adapter": self.model.adapter_revision} if self.model.adapter else {}
        return {"model": self.model.revision, "data": self.data.revision, **adapter}

    @property
    def sources(self) -> dict[str, Model | Data | AdapterSource]:
        """The sections whose source is on the Hub, and the adapter with which the run begins."""
        sections: dict[str, Model | Data | AdapterSource] = {"model": self.model, "data": self.data}
        if adapter := self.model.adapter_source:
            sections["adapter"] = adapter
        return {name: source for name, source in sections.items() if source.on_hub}

    def shared_by(self, processes: int, meant_for: int) -> "Recipe":
        """The recipe of a run on `processes` processes, if its batch is meant for `meant_for` of them.

        A batch that the recipe leaves open is chosen for those that the run has.

        A step has the same rows. It has fewer or more batches, or smaller ones, but never larger ones, which
        would take more memory.

        Raises ValueError when the processes cannot share the rows of a step equally.
        """
        training = self.training
        if "batch_size" in self.open:
            return self
        rows, rest = divmod(training.batch * training.accumulation_steps * meant_for, processes)
        if rest:
            raise ValueError(
                f"a step has {meant_for} x {training.accumulation_steps} batches of {training.batch}, "
                f"which {processes} processes cannot share equally"
            )
        batch = max(size for size in range(1, training.batch + 1) if rows % size == 0)
        changes = {"batch_size": batch, "accumulation_steps": rows // batch}
        return self.model_copy(update={"training": training.model_copy(update=changes)})

    def in_storage(self, storage: str) -> "Recipe":
        """The same recipe, with the data files that a stack uploaded where they are below `storage`."""
        files = [
            file.replace(STORAGE, f"{storage.rstrip('/')}/", 1) if file.startswith(STORAGE) else file
            for file in self.data.files
        ]
        return self.with_files(files)

    def with_files(self, files: list[str]) -> "Recipe":
        """The same recipe with other names of its data files."""
        return self.model_copy(update={"data": self.data.with_files(files)})

    def with_hook_beside(self) -> "Recipe":
        """The same recipe with the user's function beside it, as a stack ships it."""
        if not self.data.hook:
            return self
        data = self.data.model_copy(update={"rows": Path(self.data.hook).name})
        return self.model_copy(update={"data": data})

    def at(self, commits: Mapping[str, str | None]) -> "Recipe":
        """The same recipe, with its sources at these commits."""
        known = {name: {"revision": commit} for name, commit in commits.items() if commit}
        adapter = known.pop("adapter", None)
        if adapter and self.model.adapter:
            known["model"] = known.get("model", {}) | {"adapter_revision": adapter["revision"]}
        pinned = {name: getattr(self, name).model_copy(update=update) for name, update in known.items()}
        return self.model_copy(update=pinned)


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or any file by path: a path ends in .yaml or contains a slash.

    Args:
        overrides: KEY=VALUE with a dotted key, such as training.epochs=1. They replace what the file says.

    Raises:
        RecipeError: With every problem at once.
    """
    path = find(name_or_path, RECIPES)
    tree = _with_files_beside(load(path), path.resolve().parent)
    problems: list[str] = []
    for override in overrides:
        problems += _override(tree, override)
    problems += given_twice(tree)
    return checked(Recipe, tree, path, problems)


def _with_files_beside(tree: Any, folder: Path) -> Any:
    """The tree of a recipe with absolute paths of its data files."""
    if not isinstance(tree, dict) or not isinstance(data := tree.get("data"), dict):
        return tree
    rows = data.get("rows")
    # A stack ships a function of the user beside the recipe. Then its name is the same in every pod.
    if isinstance(rows, str) and folder != RECIPES:
        data = {**data, "rows": str(folder / rows)}
    data = _section_with_paths(data, folder)
    if isinstance(sets := data.get("sets"), list):
        data = {**data, "sets": [_section_with_paths(part, folder) for part in sets]}
    return {**tree, "data": data}


def _section_with_paths(section: Any, folder: Path) -> Any:
    """A section with absolute paths of its files."""
    if not isinstance(section, dict) or not isinstance(files := section.get("files"), list):
        return section
    return {**section, "files": [path for file in files for path in _paths(file, folder)]}


def _paths(file: Any, folder: Path) -> list[Any]:
    """The path of a file, or of the files of rows in a folder."""
    if not isinstance(file, str) or not file or "://" in file:
        return [file]
    path = folder / file
    if not path.is_dir():
        return [str(path)]
    return sorted(str(inside) for inside in path.iterdir() if may_have_rows(inside.name)) or [str(path)]


def with_defaults(tree: Any) -> Any:
    """A recipe that an earlier version of this package recorded, with the keys that are newer."""
    try:
        return Recipe.model_validate(tree).to_dict()
    except ValidationError:
        return tree


def _override(tree: object, text: str) -> Iterator[str]:
    """Put KEY=VALUE into the tree of a recipe, or yield what is wrong with it."""
    key, equals, value = text.partition("=")
    if not equals:
        yield f"{text!r} must be KEY=VALUE, for example training.epochs=1"
        return
    *sections, name = key.split(".")
    kind: Any = Recipe
    for part in (*sections, name):
        kind = _type_of(part, kind)
    for part in sections:
        # A section without a value is as good as none.
        if isinstance(tree, dict) and tree.get(part) is None:
            tree[part] = {}
        tree = tree.get(part) if isinstance(tree, dict) else None
    if isinstance(tree, dict):
        tree[name] = _value(kind, value)
    else:
        yield f"unknown key {key}"


def _type_of(key: str, kind: Any) -> Any:
    """The type of a key in a section, or of a value in a mapping. None for a key that does not exist."""
    if section := section_in(kind):
        fields = section.model_fields
        return fields[key].annotation if key in fields else None
    return (get_args(kind) or (None,))[-1]


def _value(kind: Any, text: str) -> Any:
    """The value of an override: a text as it is, anything else as YAML."""
    parts = get_args(kind)
    if type(None) in parts and text in ("null", ""):
        return None
    # A value that may be a number or a text is read as YAML, which tells them apart.
    takes_text = str in (kind, *parts) or any(str in get_args(part) for part in parts)
    if takes_text and get_origin(kind) not in (dict, list):
        return text
    return parsed(text)
