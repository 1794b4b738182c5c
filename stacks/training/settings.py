"""The topics of a training: its image, and its recipe with tokens and limits."""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol

from pydantic import AfterValidator, Field, SecretStr

from cloud.machines import Accelerator
from cloud.services import cloudbuild
from components.cluster.capacity import FLEX_START_MAX_HOURS
from components.identity.token import HuggingFaceToken, Token, WandbKey
from stacks.platform import WORKLOADS
from stacks.settings.image import ImageByDigest
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import REGION, AccountAddress, Project
from stacks.training.fit import Fit
from stacks.training.packages import REQUIREMENTS, with_packages
from stacks.training.recipe import RECIPE, RecipeSet, check_name, file_of, name_of, read_recipe
from stacks.training.rows import uploads
from workloads.finetune.settings.recipe import STORAGE, Recipe, load_recipe

FINETUNE: Final = WORKLOADS / "finetune"
# What starts a program in a process per GPU.
LAUNCH: Final = WORKLOADS / "launch"
# An access token, or the token of a sign-in at the Hub.
_HUB_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9_.-]+")
# An API key, before which an installation of one's own puts a name and a hyphen: what W&B's client accepts.
# https://github.com/wandb/wandb/blob/main/wandb/sdk/lib/wbauth/validation.py
_WANDB_KEY: Final = re.compile(r"(.+-)?[A-Za-z0-9_]{40,}")
# A run has no step while it downloads and loads its model.
_LEAST_IDLE_MINUTES: Final = 15


def _word(secret: SecretStr) -> str:
    """The text of a secret. Raises ValueError if it is empty or holds white space."""
    text = secret.get_secret_value()
    if text.split() != [text]:
        raise ValueError("is empty or holds white space")
    return text


def _checked_hub_token(token: SecretStr) -> SecretStr:
    if not _HUB_TOKEN.fullmatch(_word(token)):
        raise ValueError("does not begin with hf_, or has characters that no token has")
    return token


def _checked_wandb_key(key: SecretStr) -> SecretStr:
    if not _WANDB_KEY.fullmatch(_word(key)):
        raise ValueError("is shorter than 40 characters, or has characters that no key has")
    return key


def _checked_idle_minutes(minutes: int) -> int:
    if 0 < minutes < _LEAST_IDLE_MINUTES:
        raise ValueError(
            f"a run may need {minutes} minutes to load its model; set {_LEAST_IDLE_MINUTES} or more, or 0 "
            "for no limit"
        )
    return minutes


HubToken = Annotated[SecretStr, AfterValidator(_checked_hub_token)]
HUB_TOKEN: Final = Hint(values="a Hugging Face read token", fake="hf_rehearsal_not_a_token")
RunName = Annotated[
    str | None,
    Field(
        # As `RUN_NAME` of the trainers has it.
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Name of the run. A run with this name in the bucket goes on, also with other code, "
        "other libraries or another image. By default the name is the recipe's, with a digest of everything "
        "that the run depends on.",
    ),
    Hint(values="at most 63 letters, digits, '.', '_' or '-'"),
]
MaxRunHours = Annotated[
    int | None,
    Field(
        ge=1,
        # The limit of flex-start. Somebody should look at a longer run before it goes on.
        le=FLEX_START_MAX_HOURS,
        description="Hours that a run may train, in all its tries together. Then the run is saved and ends. "
        "The wait for machines does not count. By default there is no limit.",
    ),
]
IdleMinutes = Annotated[
    int,
    AfterValidator(_checked_idle_minutes),
    Field(
        ge=0,
        le=720,
        description="Minutes that a run may go without a step, an evaluated batch or a checkpoint. Then it "
        "is saved, if it still can be, and ends, because idle accelerators cost as much as busy ones. "
        "Loading the model counts too. With 0 there is no limit.",
    ),
]


class TrainingImage(ConfigModel):
    """Image of the training.

    Attributes:
        folder: Folder with the Dockerfile and the locked requirements of the image, which has its name.
        lock: The locked requirements in the folder.
    """

    folder: ClassVar[Path] = FINETUNE
    lock: ClassVar[str] = REQUIREMENTS

    image: ImageByDigest = Field(
        None,
        alias="imageUri",
        description="Image that was built from the workload's Dockerfile. By default the stack builds it.",
    )
    extra_requirements: Annotated[
        str | None, Hint(values="the path of a requirements file with exact versions and hashes")
    ] = Field(
        None,
        description="File of packages that the image gets besides its own, which `docs/training/packages.md` "
        "says how to lock. Another package or version is another image and another run.",
    )
    build_region: Annotated[
        str | None,
        Hint(
            values="a region such as us-central1 (not a zone)",
            default=f"the stack's region, or {cloudbuild.OPEN_REGIONS[0]}",
        ),
    ] = Field(
        None,
        pattern=REGION,
        description="Region in which Cloud Build builds the image. By default the stack's region if every "
        f"project may build there, else {cloudbuild.OPEN_REGIONS[0]}. The image itself is always kept in the "
        "stack's region. On a stack that is up it counts for the next image: what is built "
        "is not built again.",
    )
    build_pool: Annotated[
        str | None, Hint(values="a private pool, projects/PROJECT/locations/REGION/workerPools/NAME")
    ] = Field(
        None,
        pattern=r"^projects/[a-z][a-z0-9-]{4,28}[a-z0-9]/locations/[a-z]+(-[a-z]+)+[0-9]+/workerPools/"
        r"[a-z][a-z0-9-]{0,62}$",
        description="Private pool of Cloud Build in which the image is built, in its region, on its machines "
        "and in its network. The build needs about 100 GB of disk. By default Google's own machines build "
        "the image.",
    )
    build_account: AccountAddress = Field(
        None,
        alias="accounts.build",
        description="Service account of the image's build that exists before the stack. The bootstrap makes "
        "it, so that a pipeline acts as no other account. By default the stack creates its own.",
    )

    @property
    def replaced_texts(self) -> dict[str, str]:
        """Texts in place of those in the image's build context, by path."""
        locked = self.folder / self.lock
        if self.extra_requirements:
            return {REQUIREMENTS: with_packages(locked, WORKLOADS.parent / self.extra_requirements)}
        return {} if self.lock == REQUIREMENTS else {REQUIREMENTS: locked.read_text()}

    def region_of_build(self, project: Project) -> str:
        """Region in which the image is built."""
        if self.build_pool:
            return self.build_pool.split("/")[3]
        return self.build_region or cloudbuild.build_region(project.region)

    @rule("extraRequirements")
    def _packages_need_a_build(self) -> None:
        self._require_build(self.extra_requirements)

    @rule("extraRequirements")
    def _packages_are_locked(self) -> None:
        try:
            _ = self.replaced_texts
        except ValueError as error:
            raise ValueError(f"{self.extra_requirements}: {error}") from None

    @rule("buildRegion")
    def _region_needs_a_build(self) -> None:
        self._require_build(self.build_region)

    @rule("buildPool")
    def _pool_needs_a_build(self) -> None:
        self._require_build(self.build_pool)

    @rule("accounts.build")
    def _account_needs_a_build(self) -> None:
        self._require_build(self.build_account)

    @rule("buildPool")
    def _pool_chooses_the_region(self) -> None:
        if self.build_pool and self.build_region:
            raise ValueError("the pool's region is that of the build; remove buildRegion")

    def _require_build(self, value: str | None) -> None:
        if value and self.image:
            raise ValueError("with imageUri nothing is built; remove one of the two")


class Cuda12Image(TrainingImage):
    """Image of the training."""

    # For a GPU whose driver is too old for CUDA 13: docs/adr/0008-two-training-images.md.
    lock: ClassVar[str] = "requirements-cuda12.txt"


class Training(Protocol):
    """A training with any trainer.

    Attributes:
        package: Folder of the trainer's package, which has the recipes in it.
        helpers: Folders of further packages that only this trainer needs.
    """

    package: ClassVar[Path]
    helpers: ClassVar[tuple[Path, ...]]

    @property
    def run(self) -> str | None:
        """Name of the run. None derives it from what the run depends on."""
        ...

    @property
    def max_run_hours(self) -> int | None:
        """Hours that the run may train. None means no limit."""
        ...

    @property
    def recipe_name(self) -> str:
        """Name of the recipe, or of its file."""
        ...

    @property
    def recipe_file(self) -> dict[str, str]:
        """The text of the recipe that is trained, by its path beside the trainer's package."""
        ...

    @property
    def data_files(self) -> dict[str, Path]:
        """Files on this disk that the training reads, by their names in the stack's bucket."""
        ...

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The tokens that containers use, None where one is not set."""
        ...


class FineTuning(ConfigModel):
    """Fine-tuning.

    Attributes:
        package: Folder of the trainer's package, which has the recipes in it.
        helpers: Folders of further packages that only this trainer needs.
    """

    package: ClassVar[Path] = FINETUNE
    helpers: ClassVar[tuple[Path, ...]] = (LAUNCH,)

    recipe: Annotated[str, RECIPE] = Field(
        description="Recipe, which says what is trained, and how: the name of a file in "
        "`workloads/finetune/recipes`, without `.yaml`, or the path of a file of your own, such as "
        "`./my-rows.yaml`.",
    )
    recipe_set: RecipeSet = Field({})
    hf_token: Annotated[HubToken, HUB_TOKEN] = Field(
        description="Hugging Face read token of an account that accepted the model's licence."
    )
    max_run_hours: MaxRunHours = None
    idle_minutes: IdleMinutes = 60
    run: RunName = None
    resume: Literal["exact", "resize"] = Field(
        "exact",
        description="What a run does that is to go on with another number of GPUs. `exact`: it ends. "
        "`resize`: its steps keep their rows, in more or fewer batches, and losses may differ from there.",
    )
    wandb_key: Annotated[
        Annotated[SecretStr, AfterValidator(_checked_wandb_key)] | None,
        Hint(values="an API key of Weights & Biases"),
    ] = Field(None, description="API key of Weights & Biases, for a recipe that reports to `wandb`.")

    @property
    def recipe_name(self) -> str:
        """Name of the recipe, or of its file."""
        return name_of(self.recipe)

    @cached_property
    def trained_recipe(self) -> Recipe:
        """The recipe with the values of this stack in place."""
        return read_recipe(load_recipe, self.recipe, self.recipe_set)

    @property
    def shipped_recipe(self) -> Recipe:
        """The recipe as the pods get it, with its files where the stack puts them."""
        uploaded = {str(path): f"{STORAGE}{name}" for name, path in self.data_files.items()}
        recipe = self.trained_recipe.with_hook_beside()
        return recipe.with_files([uploaded.get(file, file) for file in recipe.data.files])

    @property
    def recipe_file(self) -> dict[str, str]:
        """The text of the recipe that is trained, by its path beside the trainer's package.

        With the file of the user's function for rows, if it has one.
        """
        files = file_of(self.shipped_recipe, self.package, self.recipe_name)
        if hook := self.trained_recipe.data.hook_file:
            files[f"{self.package.name}/recipes/{hook.name}"] = hook.read_text()
        return files

    # Read several times, and a file of rows may be large.
    @cached_property
    def data_files(self) -> dict[str, Path]:
        """Files with rows on this disk, and their pictures, by their names in the stack's bucket."""
        files: dict[str, Path] = {}
        for data in self.trained_recipe.data.parts:
            for path in (Path(file) for file in data.files if not file.startswith("gs://")):
                files |= uploads(path, data.picture_paths(path))
        return files

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The tokens of the trainer, and the tracker's key."""
        return {HuggingFaceToken: self.hf_token, WandbKey: self.wandb_key}

    @property
    def run_arguments(self) -> list[str]:
        """The trainer's arguments for its limits, and for another number of GPUs."""
        return [*limits(self.max_run_hours, self.idle_minutes), *["--resize"] * (self.resume == "resize")]

    def sized(self, gpus: int) -> list[int]:
        """The part of a run's name that stands for the number of GPUs, if the run depends on it."""
        return [gpus] if self.resume == "exact" else []

    @property
    def trial_command(self) -> list[str]:
        """The command that tries the recipe on a CPU. It runs in the project's folder."""
        sets = [f"--set={key}={value}" for key, value in self.recipe_set.items()]
        return [".venv-training/bin/python", "-m", "trial", f"--recipe={self.recipe}", *sets]

    def fit_on(self, gpu: Accelerator, gpus: int) -> Fit:
        """Whether a step fits into the memory of `gpus` GPUs."""
        return Fit(recipe=self.trained_recipe, name=self.recipe, values=self.recipe_set, gpu=gpu, gpus=gpus)

    @property
    def _files_on_disk(self) -> list[str]:
        return [file for file in self.trained_recipe.data.files if not file.startswith("gs://")]

    @rule("recipe")
    def _recipe_is_one(self) -> None:
        _ = self.trained_recipe
        check_name(self.recipe)

    @rule("recipe")
    def _recipe_has_its_files(self) -> None:
        hook = self.trained_recipe.data.hook_file
        if hook and not hook.is_file():
            raise ValueError(f"data.rows: there is no file {hook}; write FILE.py:FUNCTION, beside the recipe")
        first = self.trained_recipe.model.adapter_source
        if first and not first.on_hub and not first.name.startswith("gs://"):
            raise ValueError(
                f"model.adapter: {first.name} is a folder of this machine; copy it into the bucket and write "
                "gs://BUCKET/FOLDER"
            )
        if missing := [file for file in self._files_on_disk if not Path(file).is_file()]:
            raise ValueError(
                f"data.files: there is no file {', '.join(missing)}; name a file beside the recipe, or "
                "gs://BUCKET/FILE"
            )


def limits(max_run_hours: int | None, idle_minutes: int) -> list[str]:
    """A trainer's arguments for its limits. 0 and None mean none."""
    options: Mapping[str, Any] = {"--max-run-hours": max_run_hours, "--idle-minutes": idle_minutes}
    return [f"{option}={limit}" for option, limit in options.items() if limit]
