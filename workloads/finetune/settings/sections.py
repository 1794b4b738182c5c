"""The sections of a recipe, as pydantic models: model, data, training, evaluation. The adapter: lora.py."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from conversations.columns import RowError
from conversations.conversation import Conversation
from conversations.known import no_column
from conversations.pairs import read
from conversations.pictures import is_below
from conversations.reading import FileError, read_rows
from finetune.settings.contradictions import with_fields
from finetune.settings.row_sets import RowSet, with_files_of_sets
from finetune.settings.templates import TemplateName
from finetune.settings.values import (
    AdapterName,
    AdapterSource,
    MaybeSourceName,
    MaybeText,
    PlainName,
    RowFile,
    Section,
    Source,
    Text,
    count_or_function,
    is_tracker,
)

# What follows the name of a file of rows in the name of the archive with its pictures, which is beside it.
PICTURES = ".pictures.zip"


class Model(Source):
    """The base model, and how its weights are held."""

    kind: ClassVar = "model"

    quantization: Literal["nf4", "none"] = Field(
        "none", description="nf4 holds the base model's weights in 4 bits, which takes less memory."
    )
    precision: Literal["bf16", "fp32"] = Field(
        "bf16",
        description="Number format of the computation, and of frozen weights. Weights that are trained are "
        "held in fp32.",
    )
    chat_template: TemplateName | None = Field(
        None,
        description="A published chat template, by trl's name for it, for a base model without one. It is in "
        "the result.",
    )
    adapter: AdapterName | None = Field(
        None,
        description="A trained adapter of this base model with which the run begins, in place of a new one: "
        "the folder of a finished run, gs://BUCKET/RUN or local, a folder with an adapter's two files, or a "
        "Hugging Face id. The section lora is its own configuration.",
    )
    adapter_revision: PlainName | None = Field(
        None, description="Branch, tag or commit of an adapter on the Hub. A run keeps its commit."
    )

    @property
    def adapter_source(self) -> AdapterSource | None:
        """The adapter with which the run begins."""
        return AdapterSource(name=self.adapter, revision=self.adapter_revision) if self.adapter else None


class Data(Source):
    """The rows, and the columns from which a conversation is made."""

    kind: ClassVar = "dataset"

    name: MaybeSourceName = Field(
        "", description="A Hugging Face id or a directory. Leave it out when you name files."
    )
    config: Text | None = Field(None, description="The data set's configuration (subset), if it has several.")
    files: list[RowFile] = Field(
        [],
        description="Files in place of name: JSON lines, JSON, CSV, each also as .gz, or parquet. "
        "gs://BUCKET/FILE, or paths, which begin at the recipe's folder. A folder stands for its files. A "
        "stack uploads files of your disk to its bucket.",
    )
    sets: list[RowSet] = Field(
        [], description="Several data sets in place of name and files, each with a weight."
    )
    split: Text = Field(
        "train", description="The split that rows are drawn from, or a part of it, such as train[:50%]."
    )
    rows: Annotated[int | str, AfterValidator(count_or_function)] | None = Field(
        None,
        description="Rows to draw for training, by default all. Or FILE.py:FUNCTION, a function of yours "
        "that gets each row as a dictionary and returns the row to train, a list of rows, or None.",
    )
    test_rows: NonNegativeInt = Field(
        0,
        description="Rows to hold out for evaluation, besides those for training. The training's seed draws "
        "both.",
    )
    image: Text | None = Field(
        None,
        description="Column with the pictures: paths that begin at the file's folder, bytes or data URIs, "
        "one or several a row. With pictures in the messages, the column of messages. Leave it out for text.",
    )
    messages: Text | None = Field(
        None,
        description="Column of whole conversations, lists of role and content, in place of reply and prompt. "
        "Every reply is trained, also one that calls tools.",
    )
    tools: Text | None = Field(
        None,
        description="Column with the tools that a conversation of messages may call: a list of JSON "
        "schemas, or its JSON text.",
    )
    text: Text | None = Field(
        None,
        description="Column of plain texts, in place of reply and prompt. Every token of a text is trained, "
        "in chunks of max_length.",
    )
    trained_replies: Literal["all", "last"] = Field(
        "all",
        description="Which replies of a conversation are trained. One that its file marks with weight 0 "
        "never is.",
    )
    reply: MaybeText = Field("", description="Column with the text that the model learns to write.")
    rejected: Text | None = Field(
        None,
        description="Column with the reply that the model learns to avoid, for task preference. reply, or "
        "messages, has the one that it learns to prefer.",
    )
    fields: dict[str, str] = Field(
        {},
        description="Placeholders of prompt, and the column that fills each of them. By default a "
        "placeholder is the name of its column.",
    )
    optional: list[Text] = Field(
        [],
        description="Columns that may be empty in a row, such as Alpaca's input. By default a row with an "
        "empty one is left out.",
    )
    most_left_out: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Share of the rows that a run may leave out because they cannot be trained. Above it, "
        "the run ends before it trains.",
    )
    system: Text | None = Field(None, description="A system message before every prompt.")
    prompt: MaybeText = Field("", description="The user's message, with {placeholders} that fields names.")

    @model_validator(mode="before")
    @classmethod
    def _names_columns(cls, tree: Any) -> Any:
        return with_files_of_sets(with_fields(tree))

    @property
    def parts(self) -> list["Data"]:
        """The section for each of its sets, or itself."""
        own = {"sets": [], "rows": self.hook, "test_rows": 0}
        return [self.model_copy(update=own | part.changes) for part in self.sets] or [self]

    def with_files(self, files: list[str]) -> "Data":
        """The same with other names of its files."""
        other = dict(zip(self.files, files, strict=True))
        sets = [part.model_copy(update={"files": [other[file] for file in part.files]}) for part in self.sets]
        return self.model_copy(update={"files": files, "sets": sets})

    @property
    def limit(self) -> int | None:
        """How many rows to draw for training. None means all."""
        return self.rows if isinstance(self.rows, int) else None

    @property
    def hook(self) -> str | None:
        """FILE.py:FUNCTION of the user's function that makes the rows."""
        return self.rows if isinstance(self.rows, str) else None

    @property
    def hook_file(self) -> Path | None:
        """The file of the user's function."""
        return Path(self.hook.rpartition(":")[0]) if self.hook else None

    @property
    def title(self) -> str:
        """The data set's name, or its files, for messages."""
        return self.name or ", ".join([*self.files, *(part.name for part in self.sets if part.name)])

    @property
    def texts(self) -> list[str]:
        """The columns that hold text."""
        pair = [self.rejected] if self.rejected else []
        if self.messages:
            return [*filter(None, [self.messages, self.reply, self.tools]), *pair]
        if self.text:
            return [self.text]
        return [*self.fields.values(), self.reply, *pair]

    @property
    def columns(self) -> list[str]:
        """Every column that a run reads."""
        return [*dict.fromkeys([*self.texts, *([self.image] if self.image else [])])]

    def missing_columns(self, present: Collection[str]) -> str:
        """What to say when rows have not all of the recipe's columns, empty if they have."""
        missing = [name for name in self.columns if name not in present and name not in self.optional]
        return no_column(missing, present) if missing else ""

    def picture_paths(self, file: Path) -> list[str]:
        """The pictures below the folder of a file of rows, which its rows name by their paths from there."""
        if not self.image or file.suffix == ".parquet":
            return []
        paths = dict[str, None]()
        with file.open("rb") as stream, suppress(FileError):
            for row in read_rows(stream, file.name):
                with suppress(RowError):
                    paths.update(
                        dict.fromkeys(path for path in self.conversation(row).pictures if is_below(path))
                    )
        return [path for path in paths if (file.parent / path).is_file()]

    def rows_in(self, content: bytes, name: str, *, whole: bool) -> Iterator[dict[str, Any]]:
        """The rows in a file, or in its beginning. Raises FileError, a ValueError, as a run does."""
        return read_rows(BytesIO(content), name, whole=whole)

    def conversation(self, row: Mapping[str, Any]) -> Conversation:
        """The turns and pictures of a row. Raises RowError, a ValueError, if it cannot be trained."""
        return read(self, row)


class Training(Section):
    """Length, batch, optimizer, and what is saved on the way. Steps are optimizer steps."""

    epochs: PositiveInt = Field(1, description="How often the run sees every row.")
    batch_size: PositiveInt | None = Field(
        None,
        description="Rows per process and forward pass. With packing it counts sequences. By default chosen.",
    )
    accumulation_steps: PositiveInt = Field(1, description="Forward passes per optimizer step.")
    packing: bool | None = Field(
        None,
        description="Whether rows of text are laid end to end in sequences of max_length tokens. By default "
        "if the model takes them so.",
    )
    max_length: PositiveInt | None = Field(
        None,
        description="Greatest number of tokens of a sequence. Longer rows of text are left out. By default "
        "chosen by their lengths.",
    )
    learning_rate: PositiveFloat = Field(
        2e-4, description="The highest learning rate of the schedule. Without lora it is 1e-5 by default."
    )
    beta: PositiveFloat | None = Field(
        None,
        description="How closely task preference keeps the model to its reference, as DPO calls it. By "
        "default 0.1. A higher one keeps it closer.",
    )
    schedule: Literal["constant", "constant_with_warmup", "linear", "cosine"] = Field(
        "cosine", description="How the learning rate changes from the first step to the last."
    )
    warmup_steps: float = Field(
        0.0, ge=0, description="Steps in which the learning rate rises. Below 1 it is a share of all steps."
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW's weight decay.")
    optimizer: Literal["adamw_torch_fused", "adamw_torch"] = Field(
        "adamw_torch_fused", description="The optimizer, as transformers calls it."
    )
    max_grad_norm: PositiveFloat = Field(1.0, description="Gradients are scaled down to this norm at most.")
    gradient_checkpointing: bool | None = Field(
        None,
        description="Whether activations are computed twice to take less memory. By default only if the GPU "
        "has too little.",
    )
    sharding: Literal["none", "fsdp2"] = Field(
        "none", description="fsdp2 shards the base model over the processes."
    )
    seed: NonNegativeInt = Field(42, description="Seed of everything that is random.")
    data_seed: NonNegativeInt | None = Field(
        None, description="Seed that draws the rows and orders them. By default seed."
    )
    loader_processes: NonNegativeInt = Field(1, description="Processes that prepare batches, per process.")
    log_every_steps: PositiveInt = Field(5, description="Steps from one line of metrics to the next.")
    report_to: list[Annotated[str, AfterValidator(is_tracker)]] = Field(
        [],
        description="Trackers as transformers calls them: tensorboard, wandb, or others that the image has.",
    )
    evaluate_every_steps: PositiveInt | None = Field(
        None,
        description="Steps from one evaluation of the test rows to the next. By default there is one, at the "
        "end.",
    )
    load_best_model_at_end: bool = Field(
        False, description="Publish what had the lowest evaluation loss, not what was last."
    )
    early_stopping_patience: PositiveInt | None = Field(
        None, description="Evaluations in a row without a lower loss after which the run ends."
    )
    save_every_steps: PositiveInt = Field(25, description="Steps from one checkpoint to the next.")
    checkpoints_to_keep: PositiveInt = Field(2, description="The newest checkpoints that stay in the bucket.")
    result: Literal["adapter", "model"] = Field(
        "adapter",
        description="adapter publishes the adapter. model also publishes the base model with the adapter "
        "merged into it. Without lora it is model.",
    )
    push_to_hub: bool = Field(False, description="Push the result to the Hub once the run is finished.")
    hub_model_id: PlainName | None = Field(
        None, description="The Hub's repository for the result. It is made if there is none."
    )
    hub_private_repo: bool = Field(True, description="Whether a repository that is made is private.")
    trl: dict[str, Any] = Field(
        {},
        description="Other settings of trl's SFTConfig, by its names and passed on as they are, such as "
        "neftune_noise_alpha. A setting that this recipe has a key for is refused here.",
    )

    @property
    def batch(self) -> int:
        """Rows or packs of a forward pass, as far as the recipe says."""
        return self.batch_size or 1

    @property
    def packs(self) -> bool:
        """Whether rows are packed, as far as the recipe says."""
        return bool(self.packing)

    @property
    def recomputes(self) -> bool:
        """Whether activations are computed twice, unless the recipe says no."""
        return self.gradient_checkpointing is not False

    @property
    def rows_seed(self) -> int:
        """The seed that draws the rows and orders them."""
        return self.seed if self.data_seed is None else self.data_seed


class Evaluation(Section):
    """Answers to held-out rows, judged at the end of a run."""

    judge: Literal["sql", "emoji", "text"] = Field(
        "text",
        description="How an answer is compared with the row's reply. sql runs both queries in tables of the "
        "row's own schema. emoji and text count the emoji or words that both have.",
    )
    rows: NonNegativeInt = Field(0, description="Greatest number of test rows to answer. By default none.")
    max_new_tokens: PositiveInt = Field(256, description="Greatest number of tokens of an answer.")
    every_steps: PositiveInt | None = Field(
        None,
        description="Steps from one answering of the test rows to the next. By default only the end has one.",
    )
    before: bool = Field(
        True,
        description="Whether the untrained model answers the same rows before the first step, so that you "
        "see what the training gave.",
    )
    good: dict[
        Literal["execution_accuracy", "exact", "overlap", "better_than_base"],
        Annotated[float, Field(ge=0, le=1)],
    ] = Field(
        {},
        description="Lowest figures of a good run. better_than_base says by how much the first figure must "
        "be above the untrained model's. No service serves a complete run below them.",
    )

    def not_good(self, figures: Mapping[str, float], before: Mapping[str, float] | None = None) -> str | None:
        """Why a run is not good, or None.

        Args:
            figures: The figures of its answers.
            before: The same of the untrained model, None if it did not answer.
        """
        least = dict(self.good)
        margin = least.pop("better_than_base", None)
        reasons = [
            f"{name} {figures[name]:.6g} is below {lowest:g}"
            for name, lowest in least.items()
            if figures[name] < lowest
        ]
        first = "execution_accuracy" if self.judge == "sql" else "overlap"
        if margin is not None and not before:
            reasons.append("the untrained model has not answered, and good.better_than_base compares with it")
        # Differences of decimal fractions are not exact.
        elif margin is not None and before and figures[first] - before[first] < margin - 1e-9:
            reasons.append(
                f"{first} {figures[first]:.6g} is not {margin:g} above the untrained model's "
                f"{before[first]:.6g}"
            )
        return ", ".join(reasons) or None
