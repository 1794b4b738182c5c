"""Recipes: what is trained on what and how, read from YAML into pydantic models.

Nothing heavy is imported here, so a wrong key is reported in a fraction of a second.
"""

import hashlib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from ending.recipe_file import checked, did_you_mean, find, load, parsed

RECIPES = Path(__file__).parent / "recipes"
# What each recipe's step takes of a GPU, as `make gpu-fit` computed it.
FIT = RECIPES / "fit.json"
NOT_WITH_MESSAGES = {"fields", "image", "prompt", "reply", "system"}


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
# Empty when it is not given.
MaybeText = Annotated[str, AfterValidator(lambda text: text and _not_blank(text))]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Source(_Section):
    """What is read from the Hugging Face Hub, or from a directory."""

    name: Text = Field(description="A Hugging Face id or a directory.")
    revision: Text | None = Field(
        None,
        description="Branch, tag or commit on the Hub. A run keeps to the commit that it had when it began.",
    )

    @property
    def on_hub(self) -> bool:
        """Whether the name is an id, not a directory."""
        return bool(self.name) and not Path(self.name).is_absolute() and not Path(self.name).is_dir()


class Model(_Source):
    """The base model, and how its weights are held."""

    kind: ClassVar = "model"

    quantization: Literal["nf4", "none"]
    precision: Literal["bf16", "fp32"]


class Lora(_Section):
    """The adapter."""

    rank: PositiveInt
    alpha: PositiveInt
    dropout: float = Field(ge=0, lt=1)
    target_modules: Text = Field(description="A regular expression over full module names.")


class Data(_Source):
    """The rows, and the columns that become a conversation."""

    kind: ClassVar = "dataset"

    name: MaybeText = Field("", description="A Hugging Face id or a directory; or else there are files.")
    config: Text | None = Field(
        None, description="The data set's configuration (subset), where it has several."
    )
    files: list[Annotated[str, Field(pattern=r"\.(jsonl|parquet)$")]] = Field(
        [], description="JSONL or parquet, all of one kind: gs://BUCKET/FILE or paths, in place of name."
    )
    split: Text = "train"
    rows: PositiveInt | None = Field(None, description="Rows drawn for training; by default all.")
    test_rows: NonNegativeInt = Field(
        0, description="Rows more that are held out for evaluation; both are drawn with the training's seed."
    )
    image: Text | None = Field(None, description="Column; without one the conversation is text.")
    messages: Text | None = Field(
        None,
        description="Column of whole conversations, lists of role and content, in place of reply and prompt; "
        "every reply is trained.",
    )
    reply: MaybeText = Field("", description="Column.")
    fields: dict[str, str] = Field(
        {}, description="The placeholders of prompt, and the column that each is filled from."
    )
    system: Text | None = None
    prompt: MaybeText = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.name or ", ".join(self.files)

    @property
    def texts(self) -> list[str]:
        """The columns that hold text."""
        return [self.messages] if self.messages else [*self.fields.values(), self.reply]

    @property
    def columns(self) -> list[str]:
        """Every column the data set must have."""
        return [*self.texts, *([self.image] if self.image else [])]


class Training(_Section):
    """Length, batch, optimizer and what is written on the way (counts in optimizer steps)."""

    epochs: PositiveInt
    batch_size: PositiveInt = Field(description="Rows, or with packing sequences, per process.")
    accumulation_steps: PositiveInt
    packing: bool = False
    max_length: PositiveInt | None = Field(
        None, description="Tokens of a packed sequence at most; text rows of more are left out."
    )
    learning_rate: PositiveFloat
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"]
    warmup_steps: float = Field(0, ge=0, description="Steps; below 1 a share of all steps.")
    weight_decay: float = Field(0, ge=0)
    optimizer: Literal["adamw_torch_fused", "adamw_torch"]
    max_grad_norm: PositiveFloat
    gradient_checkpointing: bool
    sharding: Literal["none", "fsdp2"] = Field(
        "none", description="fsdp2 shards the base model over the processes."
    )
    seed: NonNegativeInt
    data_seed: NonNegativeInt | None = Field(
        None, description="Of drawing and order of rows; by default seed."
    )
    loader_processes: NonNegativeInt
    log_every_steps: PositiveInt
    report_to: list[Text] = Field(
        [], description="Trackers as transformers calls them: tensorboard, wandb, others that the image has."
    )
    evaluate_every_steps: PositiveInt | None = Field(
        None, description="Where there are test rows, evaluation comes at the end and every so many steps."
    )
    load_best_model_at_end: bool = Field(
        False, description="Publish the adapter whose evaluation had the lowest loss, not the last one."
    )
    early_stopping_patience: PositiveInt | None = Field(
        None, description="Evaluations in a row without a lower loss after which the run is finished."
    )
    save_every_steps: PositiveInt
    checkpoints_to_keep: PositiveInt
    result: Literal["adapter", "model"] = Field(
        "adapter",
        description="model is the base model with the adapter merged into it, beside the adapter.",
    )
    push_to_hub: bool = Field(False, description="Push the result to the Hub once the run is finished.")
    hub_model_id: Text | None = Field(None, description="The Hub's repository for it, made if there is none.")
    hub_private_repo: bool = Field(True, description="Whether it is made as a private one.")

    @property
    def rows_seed(self) -> int:
        """The seed of drawing rows, and of their order."""
        return self.seed if self.data_seed is None else self.data_seed


class Evaluation(_Section):
    """Answers to held-out rows, judged at the end of a run."""

    judge: Literal["sql", "emoji", "text"] = Field(
        "text",
        description="How answer and reply are compared: sql runs both queries in tables of the row's own "
        "schema, emoji and text count the emoji or words that they share.",
    )
    rows: NonNegativeInt = Field(0, description="Test rows that are answered at most; by default none.")
    max_new_tokens: PositiveInt = Field(256, description="Tokens of an answer at most.")
    every_steps: PositiveInt | None = Field(
        None, description="Answers after the checkpoints of every so many steps too."
    )
    good: dict[Literal["execution_accuracy", "exact", "overlap"], Annotated[float, Field(ge=0, le=1)]] = (
        Field(
            {},
            description="Figures below which the run is complete, but not good: no service starts with it.",
        )
    )

    def not_good(self, figures: Mapping[str, float]) -> str | None:
        """Which figures of the answers at the end are below what a good run has; None when none is."""
        low = [name for name, least in self.good.items() if figures[name] < least]
        return ", ".join(f"{name} {figures[name]:.6g} is below {self.good[name]:g}" for name in low) or None


class Recipe(_Section):
    """Everything that decides the result of a run, except how many processes take part."""

    model: Model
    lora: Lora
    data: Data
    training: Training
    evaluation: Evaluation = Evaluation()

    @model_validator(mode="after")
    def _makes_sense(self) -> "Recipe":
        problems = [*_placeholder_problems(self.data), *_contradictions(self)]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they are written beside a run."""
        return self.model_dump()

    @property
    def digest(self) -> str:
        """Another one when anything in the recipe is another; the same when there is a new setting."""
        return hashlib.sha256(self.model_dump_json(exclude_defaults=True).encode()).hexdigest()[:12]

    @property
    def commits(self) -> dict[str, str | None]:
        """The revisions of model and data set."""
        return {"model": self.model.revision, "data": self.data.revision}

    @property
    def sources(self) -> dict[str, Model | Data]:
        """What is read from the Hub, by section."""
        sections: dict[str, Model | Data] = {"model": self.model, "data": self.data}
        return {name: source for name, source in sections.items() if source.on_hub}

    def at(self, commits: Mapping[str, str | None]) -> "Recipe":
        """The same with these commits of its sources."""
        pinned = {
            name: getattr(self, name).model_copy(update={"revision": revision})
            for name, revision in commits.items()
            if revision
        }
        return self.model_copy(update=pinned)


def load_recipe(name_or_path: str, overrides: Sequence[str] = ()) -> Recipe:
    """Read a shipped recipe by name, or any file by path (it ends in .yaml or contains a slash).

    `overrides` are KEY=VALUE with a dotted key, for example training.epochs=1, and take the place of what the
    file says. Raises RecipeError with every problem at once.
    """
    path = find(name_or_path, RECIPES)
    tree = load(path)
    problems = [problem for override in overrides for problem in _override(tree, override)]
    return checked(Recipe, tree, path, problems)


def with_defaults(tree: Any) -> Any:
    """A recipe as an earlier version of this package wrote it, with the keys that have come since."""
    try:
        return Recipe.model_validate(tree).to_dict()
    except ValidationError:
        return tree


def _placeholder_problems(data: Data) -> list[str]:
    try:
        used = {name for _, name, _, _ in string.Formatter().parse(data.prompt) if name is not None}
    except ValueError as error:
        return [f"data.prompt is not a valid template: {error} (write {{{{ and }}}} for braces)"]
    unnamed = [
        f"data.prompt uses {{{name}}}, which data.fields does not name{did_you_mean(name, data.fields)}"
        for name in sorted(used - set(data.fields))
    ]
    return unnamed + [
        f"data.fields.{name} is not used in data.prompt" for name in sorted(set(data.fields) - used)
    ]


def _contradictions(recipe: Recipe) -> Iterable[str]:
    """Settings that are right one by one and make no sense together."""
    model, data, training = recipe.model, recipe.data, recipe.training
    if bool(data.name) == bool(data.files):
        yield "data.name, a data set, or data.files must be given, not both"
    if len({Path(file).suffix for file in data.files}) > 1:
        yield "data.files must all be of one kind, .jsonl or .parquet"
    if data.config and data.files:
        yield "data.config is of a data set, and data.files have none"
    if data.messages and data.model_dump(include=NOT_WITH_MESSAGES, exclude_defaults=True):
        left_out = ", ".join(sorted(NOT_WITH_MESSAGES))
        yield f"data.messages are whole conversations of text; {left_out} must be left out"
    if not data.messages and not (data.reply and data.prompt):
        yield "data.reply and data.prompt, or data.messages, must be given"
    if data.image and training.packing:
        yield "training.packing packs text; with data.image it must be false"
    for section, source in (("model", model), ("data", data)):
        if source.revision and not source.on_hub:
            yield f"{section}.revision is of the Hub, and {section}.name no id of it"
    if data.image and training.max_length is not None:
        yield "training.max_length counts tokens of text; with data.image it must be left out"
    if training.packing and training.max_length is None:
        yield "training.packing needs training.max_length, the tokens of a packed sequence"
    if training.warmup_steps and training.schedule == "constant":
        yield "training.warmup_steps has no effect on schedule constant; take constant_with_warmup"
    if training.evaluate_every_steps is not None and not data.test_rows:
        yield "training.evaluate_every_steps needs data.test_rows to evaluate on"
    if training.load_best_model_at_end and (
        not training.evaluate_every_steps or training.evaluate_every_steps % training.save_every_steps
    ):
        yield "training.load_best_model_at_end needs training.evaluate_every_steps, a multiple of the saves'"
    if training.push_to_hub and not training.hub_model_id:
        yield "training.push_to_hub needs training.hub_model_id, OWNER/NAME"
    if training.early_stopping_patience and not training.load_best_model_at_end:
        yield "training.early_stopping_patience needs training.load_best_model_at_end"
    if recipe.evaluation.judge == "sql" and "schema" not in data.fields:
        yield "evaluation.judge sql needs data.fields.schema, the column that creates a row's tables"
    if recipe.evaluation.good and not (data.test_rows and recipe.evaluation.rows):
        yield "evaluation.good needs evaluation.rows, and data.test_rows to answer"
    for figure in recipe.evaluation.good:
        if (figure == "execution_accuracy") != (recipe.evaluation.judge == "sql"):
            yield f"evaluation.good names {figure}, which judge {recipe.evaluation.judge} does not give"
    if (recipe.evaluation.every_steps or 0) % training.save_every_steps:
        yield "evaluation.every_steps must be a multiple of training.save_every_steps"
    if training.sharding == "fsdp2" and model.quantization == "nf4":
        # https://github.com/huggingface/accelerate/pull/3987: 4-bit weights are left out of the sharding.
        yield "training.sharding fsdp2 cannot shard nf4 weights; model.quantization must be none"


def _override(tree: object, text: str) -> Iterator[str]:
    """Put KEY=VALUE into the tree of a recipe, or say what is wrong with it."""
    key, equals, value = text.partition("=")
    if not equals:
        yield f"{text!r} must be KEY=VALUE, for example training.epochs=1"
        return
    *sections, name = key.split(".")
    kind: Any = Recipe
    for part in (*sections, name):
        known = getattr(kind, "model_fields", {})
        kind = known[part].annotation if part in known else None if known else (get_args(kind) or (None,))[-1]
    for part in sections:
        tree = tree.setdefault(part, {}) if isinstance(tree, dict) else None
    if isinstance(tree, dict):
        tree[name] = _value(kind, value)
    else:
        yield f"unknown key {key}"


def _value(kind: Any, text: str) -> Any:
    """The value of an override: a text as it stands, anything else as in the file."""
    if type(None) in get_args(kind) and text in ("null", ""):
        return None
    of_text = str in (kind, *get_args(kind), *(inner for part in get_args(kind) for inner in get_args(part)))
    if of_text and get_origin(kind) not in (dict, list):
        return text
    return parsed(text)
