"""The topics of a training with MaxText: its image, and its recipe with tokens and limits."""

from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field, SecretStr

from components.identity.token import HuggingFaceToken, Token
from components.workload.ray import BUCKET_MOUNT
from stacks.platform import WORKLOADS
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.training.recipe import RECIPE, RecipeSet, check_name, file_of, name_of, read_recipe
from stacks.training.settings import (
    HUB_TOKEN,
    HubToken,
    IdleMinutes,
    MaxRunHours,
    RunName,
    TrainingImage,
    limits,
)
from workloads.maxtext.maxtext_driver.recipe import load_recipe

_MAXTEXT: Final = WORKLOADS / "maxtext"


class MaxTextImage(TrainingImage):
    """Image of the training."""

    folder: ClassVar[Path] = _MAXTEXT


class MaxTextTraining(ConfigModel):
    """Training with MaxText.

    Attributes:
        package: Folder of the driver's package, which has the recipes in it.
        helpers: Folders of further packages that only this trainer needs.
    """

    package: ClassVar[Path] = _MAXTEXT / "maxtext_driver"
    helpers: ClassVar[tuple[Path, ...]] = ()

    recipe: Annotated[str, RECIPE] = Field(
        "llama3-8b",
        description="Recipe, which says what is trained, and how: the name of a file in "
        "`workloads/maxtext/maxtext_driver/recipes`, without `.yaml`, or the path of a file of your own, "
        "such as `./mine.yaml`.",
    )
    recipe_set: RecipeSet = Field({})
    dataset: Annotated[
        str | None,
        Hint(
            values="Parquet files such as hf://datasets/ORGANIZATION/NAME/*.parquet, or of the stack's "
            f"bucket {BUCKET_MOUNT}/FOLDER/*.parquet, and for conversations also *.jsonl"
        ),
    ] = Field(
        None,
        pattern=rf"^(hf://datasets/[\w.-]+/[\w.-]+(@[\w.-]+)?|{BUCKET_MOUNT})(/[\w.*-]+)*/[\w.*-]+\.(parquet|jsonl)$",
        description="Files that replace the recipe's data: Parquet with a column `text`, or for a recipe of "
        "conversations Parquet or JSON lines with its column, such as `messages`. They are on the Hugging "
        "Face Hub (NAME@REVISION, or the newest when the run begins) or in the stack's bucket.",
    )
    hf_token: Annotated[HubToken | None, HUB_TOKEN] = Field(
        None, description="Hugging Face read token, for a gated data set or model."
    )
    max_run_hours: MaxRunHours = None
    idle_minutes: IdleMinutes = 60
    run: RunName = None

    @property
    def recipe_name(self) -> str:
        """Name of the recipe, or of its file."""
        return name_of(self.recipe)

    @cached_property
    def trained_recipe(self) -> Any:
        """The recipe with the values of this stack in place, its data set among them."""
        own = self._own_data(self.dataset) if self.dataset else {}
        return read_recipe(load_recipe, self.recipe, {**own, **self.recipe_set})

    def _own_data(self, dataset: str) -> dict[str, str]:
        """Values of the recipe for the stack's data set."""
        if self._is_of_conversations:
            # Their tokenizer comes with the weights. The recipe's own rows say nothing of a loss on these.
            return {"grain_train_files": dataset, "grain_eval_files": "''"}
        return {
            # With Grain a resumed run continues with the next row.
            "dataset_type": "grain",
            "grain_file_type": "parquet",
            "grain_train_files": dataset,
            # Llama 3's tokenizer from MaxText's package: Meta's repository on the Hub is gated.
            "tokenizer_type": "tiktoken",
            "tokenizer_path": "tokenizer_llama3.tiktoken",
        }

    @property
    def _is_of_conversations(self) -> bool:
        return read_recipe(load_recipe, self.recipe, self.recipe_set).of_conversations

    @property
    def recipe_file(self) -> dict[str, str]:
        """The text of the recipe that is trained, by its path beside the driver's package."""
        return file_of(self.trained_recipe, self.package, self.recipe_name)

    @property
    def data_files(self) -> dict[str, Path]:
        """Files on this disk that the training reads: none."""
        return {}

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The token of the driver, None if it is not set."""
        return {HuggingFaceToken: self.hf_token}

    @property
    def run_arguments(self) -> list[str]:
        """The driver's arguments for its limits."""
        return limits(self.max_run_hours, self.idle_minutes)

    @rule("dataset")
    def _lines_are_conversations(self) -> None:
        if (self.dataset or "").endswith(".jsonl") and not self._is_of_conversations:
            raise ValueError(
                f"the recipe {self.recipe} reads texts from Parquet; write the rows as Parquet, or choose "
                "a recipe of conversations, such as llama31-8b-chat"
            )

    @rule("recipe")
    def _recipe_is_one(self) -> None:
        read_recipe(load_recipe, self.recipe, self.recipe_set)
        check_name(self.recipe)
