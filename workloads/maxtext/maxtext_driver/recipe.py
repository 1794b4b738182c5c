"""Recipes: MaxText's own settings and the compiler's flags for one training, read from YAML.

Nothing heavy is imported here. The module `configuration` asks MaxText whether it knows a setting.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

from shared.recipe_file import RecipeError, checked, find, load, parsed

# By its place, since stacks read recipes, too, and know this package by another name than containers.
from .refused_settings import NOT_FOR_CONVERSATIONS, REFUSED

RECIPES = Path(__file__).parent / "recipes"

# Settings that the driver derives from its command line.
DRIVER_SETTINGS = frozenset(
    {
        *("base_config", "base_output_directory", "compile_topology", "compile_topology_num_slices"),
        *("enable_autocheckpoint", "enable_checkpointing", "hardware", "log_config", "metrics_file"),
        *("num_slices", "run_name", "skip_jax_distributed_system"),
    }
)
# The setting that may name published weights on the Hub. All others name data sets.
WEIGHTS = "load_parameters_path"
# How a setting names a source on the Hub: its kind, its name, and perhaps a revision.
_NAME = r"([\w.-]+/[\w.-]+)(?:@(refs/(?:convert|pr)/\w+|[^/@]+))?"
DATA_SET = re.compile(f"(hf://datasets/){_NAME}(?=/)")
ON_THE_HUB = defaultdict(lambda: DATA_SET, {WEIGHTS: re.compile(f"^(hf://)(?!datasets/){_NAME}$")})


# The settings with files of rows, and those with the columns that are read of them. The default is MaxText's.
TRAINED = "grain_train_files"
_COLUMNS_OF = {TRAINED: "train_data_columns", "grain_eval_files": "eval_data_columns"}
_DEFAULT_COLUMNS = ["text"]
# The columns of conversations, unless a recipe names others.
_CONVERSATIONS = ["messages"]


class Source(NamedTuple):
    """A data set or model of the Hub. `revision` is a branch, a tag, a commit, or None: the main branch."""

    name: str
    revision: str | None
    kind: str


class RowFiles(NamedTuple):
    """Files of rows by a pattern, which the setting `key` names, and the columns that are read of them.

    `source` is their data set on the Hub and `path` the pattern in it. `columns` is empty for files that are
    not parquet.
    """

    key: str
    pattern: str
    columns_key: str
    columns: tuple[str, ...]
    source: Source | None
    path: str


def _checked_flag(flag: str) -> str:
    if not re.fullmatch(r"--[A-Za-z0-9_]+=\S+", flag):
        raise ValueError(f"libtpu flag {flag!r} must be --name=value")
    return flag


class Recipe(BaseModel):
    """Everything that decides the result of a run, except how many chips take part."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    extends: str | None = Field(
        None,
        description="A recipe, by name or path, whose settings and flags these are added to, or replace. "
        "A setting that is null here is left out.",
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
        """Optimizer steps of the whole run. Far too many while the rows that decide them are not made."""
        return self.maxtext.get("steps", sys.maxsize)

    @property
    def of_conversations(self) -> bool:
        """Whether replies of conversations are trained, and not all tokens of texts."""
        return bool(self.maxtext.get("use_sft"))

    @property
    def conversation_columns(self) -> list[str]:
        """The column of the conversations, and perhaps the one of their tools."""
        return [*self.maxtext.get("train_data_columns", _CONVERSATIONS)]

    @property
    def epochs(self) -> int:
        """How often a run sees its rows, unless its steps say it."""
        return self.maxtext.get("num_epoch", 1)

    def batch_of(self, chips: int) -> int:
        """Sequences of an optimizer step on so many chips. The defaults are MaxText's."""
        rows = self.maxtext.get("per_device_batch_size", 12)
        return int(rows * chips) * self.maxtext.get("gradient_accumulation_steps", 1)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that compiles or trains the recipe, set before libtpu is loaded."""
        return {
            "LIBTPU_INIT_ARGS": " ".join(self.libtpu_flags),
            # Otherwise MaxText has XLA dump every program that it compiles.
            "XLA_FLAGS": "--xla_dump_to=",
            # MaxText's own uploads (TensorBoard, goodput, diagnostics) are off.
            "DECOUPLE_GCLOUD": "TRUE",
        }

    @property
    def sources(self) -> dict[str, Source]:
        """The data sets and weights on the Hub, by the text with which the settings name them."""
        sources = {}
        for key, value in self.maxtext.items():
            kind = "model" if key == WEIGHTS else "dataset"
            for match in ON_THE_HUB[key].finditer(str(value)):
                sources[match[0]] = Source(match[2], match[3], kind)
        return sources

    @property
    def row_files(self) -> Iterator[RowFiles]:
        """The files that MaxText's pipeline grain reads."""
        if self.maxtext.get("dataset_type") != "grain":
            return
        for key, of_texts in _COLUMNS_OF.items():
            columns_key = _COLUMNS_OF[TRAINED] if self.of_conversations else of_texts
            default = _CONVERSATIONS if self.of_conversations else _DEFAULT_COLUMNS
            wanted = self.maxtext.get(columns_key) or default
            columns = (wanted,) if isinstance(wanted, str) else tuple(wanted)
            # A mixture has patterns with weights: a,0.7;b,0.3
            for part in str(self.maxtext.get(key) or "").split(";"):
                if pattern := part.partition(",")[0].strip():
                    name = DATA_SET.match(pattern)
                    source = self.sources[name[0]] if name else None
                    path = pattern[name.end() + 1 :] if name else pattern
                    shown = columns if self._are_parquet(pattern) else ()
                    yield RowFiles(key, pattern, columns_key, shown, source, path)

    def _are_parquet(self, pattern: str) -> bool:
        if self.of_conversations:
            return pattern.endswith(".parquet")
        return self.maxtext.get("grain_file_type") == "parquet"

    @property
    def weights(self) -> Source | None:
        """The published weights that a run starts from."""
        return self.sources.get(str(self.maxtext.get(WEIGHTS)))

    def at(self, commits: Mapping[str, str]) -> "Recipe":
        """The recipe with these commits of its sources."""
        settings = {
            key: ON_THE_HUB[key].sub(lambda match: f"{match[1]}{match[2]}@{commits[match[0]]}", value)
            for key, value in self.maxtext.items()
            if isinstance(value, str)
        }
        return self.model_copy(update={"maxtext": self.maxtext | settings})

    def to_dict(self) -> dict[str, Any]:
        """The recipe in plain values, for the record of a run."""
        return {"maxtext": dict(self.maxtext), "libtpu_flags": list(self.libtpu_flags)}


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or any file by path (it ends in .yaml or contains a slash).

    A recipe may extend another one: its settings and flags are then added to those, or replace them.
    `overrides` are KEY=VALUE with a setting of MaxText, for example steps=200, and take the place of what the
    file says. Raises RecipeError with every problem at once.
    """
    path = find(name_or_path, RECIPES)
    tree = _merged(path, ())
    problems: list[str] = []
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key:
            problems.append(f"{override!r} must be KEY=VALUE, for example steps=200")
        elif isinstance(tree.setdefault("maxtext", {}), dict):
            tree["maxtext"][key] = parsed(value)
    return checked(Recipe, tree, path, problems)


def _merged(path: Path, extended_by: tuple[Path, ...]) -> dict[str, Any]:
    """The file's sections on top of those of the recipe that it extends."""
    tree = load(path)
    if not isinstance(tree, dict):
        raise RecipeError(f"recipe {path} must be a mapping with the section maxtext")
    name = tree.get("extends")
    if not isinstance(name, str):
        return tree
    chain, below = (*extended_by, path.resolve()), find(name, RECIPES)
    if below.resolve() in chain:
        raise RecipeError(f"recipe {path} extends {name}, which extends it in turn")
    del tree["extends"]
    base = _merged(below, chain)
    return {**base, **{section: _joined(base.get(section), own) for section, own in tree.items()}}


def _joined(below: Any, own: Any) -> Any:
    """Settings or flags on top of others. The pydantic model rejects anything else.

    A setting that is null is taken away from those below.
    """
    if isinstance(below, dict) and isinstance(own, dict):
        gone = {key for key, value in own.items() if value is None and key in below}
        return {key: value for key, value in {**below, **own}.items() if key not in gone}
    return [*below, *own] if isinstance(below, list) and isinstance(own, list) else own


def _setting_problems(settings: dict[str, Any]) -> Iterable[str]:
    for key, value in settings.items():
        if key in DRIVER_SETTINGS:
            yield f"{key} is set by the driver, from its command line"
        elif key in REFUSED:
            yield f"{key} {REFUSED[key]}"
        elif value is None:
            yield f"{key} has no value"
        elif "hf://" in ON_THE_HUB[key].sub("", str(value)):
            form = "ORGANIZATION/NAME" if key == WEIGHTS else "datasets/ORGANIZATION/NAME/FILES"
            yield f"{key} must name what it takes from the Hub as hf://{form}"
    # The number of their rows says how many steps there are.
    needed = ("model_name",) if settings.get("use_sft") else ("model_name", "steps")
    yield from (f"{key} is missing" for key in needed if key not in settings)
    yield from _conversation_problems(settings) if settings.get("use_sft") else ()
    steps = settings.get("steps", 1)
    if steps is not None and (not isinstance(steps, int) or isinstance(steps, bool) or steps < 1):
        yield f"steps must be a whole number greater than 0, not {steps!r}"


def _conversation_problems(settings: dict[str, Any]) -> Iterable[str]:
    """What is wrong with the settings of a training on conversations."""
    if settings.get("dataset_type") != "grain":
        yield "use_sft needs dataset_type: grain, which keeps the position in the rows"
    if not settings.get(TRAINED):
        yield f"use_sft needs {TRAINED}, the files with the conversations"
    if not ON_THE_HUB[WEIGHTS].match(str(settings.get(WEIGHTS, ""))):
        yield f"use_sft needs {WEIGHTS}: hf://ORGANIZATION/NAME, whose tokenizer and chat template it takes"
    if not settings.get("max_target_length"):
        yield "use_sft needs max_target_length, the tokens of a sequence, of which a row may fill one"
    if "steps" in settings and "num_epoch" in settings:
        yield "num_epoch and steps both say how long use_sft trains: leave one of them out"
    if len(settings.get("train_data_columns", _CONVERSATIONS)) not in (1, 2):
        yield "train_data_columns must be the column of the conversations, and perhaps the one of their tools"
    for key in sorted(NOT_FOR_CONVERSATIONS & settings.keys()):
        yield f"{key} is of MaxText's own rows, and use_sft has rows of the driver: leave it out"
