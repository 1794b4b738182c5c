"""The parts that training adds to a platform: an image, code, tokens, and on GKE a bucket for the pods."""

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import pulumi
from pydantic import Field, SecretStr, ValidationInfo, field_validator

from cloud.machines import Accelerator
from components.base.fingerprint import fingerprint
from components.cluster.capacity import CapacityType
from components.identity.token import Token, WandbKey
from components.image.image import Image
from components.storage.bucket import Storage
from components.storage.data_files import DataFiles, DataFilesArgs
from components.storage.training_code import BucketCode, TrainingCode, TrainingCodeArgs
from stacks.platform import WORKLOADS, GkePlatform, Site, StandardNodes, gke_platform
from stacks.settings.reader import Hint
from stacks.settings.shared_settings import BucketSettings, GkeSettings
from stacks.training.fit import command_for, doubt_of, is_known
from stacks.training.image import ImageSettings, from_same_repository, training_image
from stacks.training.recipe import RECIPE, RecipeSettings
from stacks.training.tokens import HUB_TOKEN, TokenSettings, one_word, tokens_of
from workloads.finetune.recipe import STORAGE, Recipe, load_recipe

FINETUNE: Final = WORKLOADS / "finetune"
# The package that ends runs, which is shipped with the code of every trainer.
ENDING: Final = WORKLOADS / "ending"


GemmaRecipe = Annotated[
    str,
    Field(
        description="Recipe, which says what is trained, and how: the name of a file in "
        "`workloads/finetune/recipes`, without `.yaml`, or the path of a file of your own, such as "
        "`./my-rows.yaml`.",
        validate_default=True,
    ),
    RECIPE,
]
# An API key, before which an installation of one's own puts a name and a hyphen: what W&B's client accepts.
# https://github.com/wandb/wandb/blob/main/wandb/sdk/lib/wbauth/validation.py
_WANDB_KEY: Final = re.compile(r"(.+-)?[A-Za-z0-9_]{40,}")


class TrainingSettings(BucketSettings, ImageSettings, RecipeSettings, TokenSettings):
    """Settings of every scenario that trains."""

    @property
    def data_files(self) -> dict[str, Path]:
        """Files on this disk that the training reads, by their names in the stack's bucket."""
        return {}

    @property
    def run_arguments(self) -> list[str]:
        """The trainer's arguments for its limits."""
        limits = {"--max-run-hours": self.max_run_hours, "--idle-minutes": self.idle_minutes}
        return [f"{option}={limit}" for option, limit in limits.items() if limit]


class GemmaSettings(TrainingSettings):
    """Settings of every scenario that fine-tunes a Gemma model.

    Attributes:
        gpu: GPU model that the scenario trains on.
        gpus: GPUs of a node, over which a sharded model is divided.
    """

    load_recipe = staticmethod(load_recipe)
    package = image_folder = FINETUNE
    gpu: ClassVar[Accelerator]
    gpus: ClassVar[int]
    hf_token: Annotated[SecretStr, HUB_TOKEN] = Field(
        description="Hugging Face read token of an account that accepted the model's licence."
    )
    wandb_key: Annotated[SecretStr | None, Hint(values="an API key of Weights & Biases")] = Field(
        None, description="API key of Weights & Biases, for a recipe that reports to `wandb`."
    )

    resume: Literal["exact", "resize"] = Field(
        "exact",
        description="What a run does that is to go on with another number of GPUs. `exact`: it ends. "
        "`resize`: its steps keep their rows, in more or fewer batches, and losses may differ from there.",
    )

    @field_validator("wandb_key")
    @classmethod
    def _looks_like_a_wandb_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not _WANDB_KEY.fullmatch(one_word(key).get_secret_value()):
            raise ValueError("is shorter than 40 characters, or has characters that no key has")
        return key

    @property
    def run_arguments(self) -> list[str]:
        """The trainer's arguments for its limits, and for another number of GPUs."""
        return [*super().run_arguments, *["--resize"] * (self.resume == "resize")]

    def sized(self, gpus: int) -> list[int]:
        """The part of a run's name that stands for the number of GPUs, if the run depends on it."""
        return [gpus] if self.resume == "exact" else []

    # Read several times, and a file of rows may be large.
    @cached_property
    def data_files(self) -> dict[str, Path]:
        """Files with rows on this disk, by their names in the stack's bucket."""
        paths = map(Path, _on_disk(self.trained_recipe))
        return {f"data/sha256-{_digest(path)}/{path.name}": path for path in paths}

    @property
    def shipped_recipe(self) -> Recipe:
        """The recipe as the pods get it, with its files where the stack puts them."""
        recipe = self.trained_recipe
        uploaded = {str(path): f"{STORAGE}{name}" for name, path in self.data_files.items()}
        return recipe.with_files([uploaded.get(file, file) for file in recipe.data.files])

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The tokens of every trainer, and the tracker's key."""
        return {**super().tokens, WandbKey: self.wandb_key}

    @field_validator("recipe")
    @classmethod
    def _fits_the_gpus(cls, recipe: str, info: ValidationInfo) -> str:
        trained_recipe = cls.recipe_with(recipe, info.data.get("recipe_set", {}))
        doubt_of(trained_recipe, recipe, cls.gpu, cls.gpus, "")
        return recipe

    @field_validator("recipe")
    @classmethod
    def _has_its_files(cls, recipe: str, info: ValidationInfo) -> str:
        trained_recipe = cls.recipe_with(recipe, info.data.get("recipe_set", {}))
        if missing := [file for file in _on_disk(trained_recipe) if not Path(file).is_file()]:
            raise ValueError(
                f"data.files: there is no file {', '.join(missing)}; name a file beside the recipe, or "
                "gs://BUCKET/FILE"
            )
        return recipe

    @property
    def fit_command(self) -> list[str]:
        """The command that computes the memory of a training step. Empty if it is known."""
        if is_known(self.trained_recipe, self.gpus):
            return []
        return command_for(self.recipe, self.recipe_set, self.gpus)

    def warn_of_memory(self) -> None:
        """Warns about a recipe with which a run may run out of memory."""
        command = shlex.join(self.fit_command)
        if doubt := doubt_of(self.trained_recipe, self.recipe, self.gpu, self.gpus, command):
            pulumi.log.warn(doubt)


def _on_disk(recipe: Recipe) -> list[str]:
    return [file for file in recipe.data.files if not file.startswith("gs://")]


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


class GkeTrainingSettings(GkeSettings, TrainingSettings):
    """Settings of every scenario that trains on GKE."""


class AwaitableSettings(GkeTrainingSettings):
    """Settings of every scenario whose training has a cluster to itself."""

    wait_for_training: bool = Field(
        False,
        description="Whether `pulumi up` waits for the end of the training, and fails if the training fails.",
    )


@dataclass(frozen=True, kw_only=True)
class TrainingPlatform(GkePlatform):
    """A platform with everything that training needs: a bucket, tokens, code and an image.

    Args:
        tokens: Environment variables of the containers that train.
    """

    bucket: Storage
    tokens: list[dict[str, Any]]
    code: TrainingCode
    image: Image


def uploaded_data(site: Site, settings: TrainingSettings, bucket: Storage) -> list[pulumi.Resource]:
    """Declares the upload of the rows that are on this disk, and returns the resources to wait for."""
    files = settings.data_files
    if not files:
        return []
    placed = {f"{bucket.prefix}{name}": path for name, path in files.items()}
    return DataFiles(site.name, DataFilesArgs(bucket=bucket.bucket_name, files=placed)).access


def run_name(settings: TrainingSettings, code: TrainingCode | BucketCode, image: Image, *more: object) -> str:
    """Name of the run, which resumes under the same name.

    By default it contains a digest of everything that the run depends on: recipe, code, libraries and `more`.
    """
    return settings.run or f"{settings.recipe_name}-{fingerprint(code.run_digest, image.fingerprint, *more)}"


def _warn_of_spot(settings: GkeTrainingSettings) -> None:
    if CapacityType.SPOT in settings.capacity_types:
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
        pulumi.log.warn(
            "capacity.type spot: when Google takes a node back, its pods have at most 25 seconds, even with "
            "a longer grace period; a run that cannot save in that time resumes from its newest checkpoint"
        )


def training_platform(
    site: Site,
    settings: GkeTrainingSettings,
    *,
    namespace: str,
    network_policies: Sequence[Path] = (),
    ray_operator: bool = False,
    scales_by_metrics_of_pods: bool = False,
    nodes: StandardNodes | None = None,
    more_images: Sequence[Image] = (),
) -> TrainingPlatform:
    """Declares a platform, and on it the image, the bucket, the code and the tokens that are set.

    For the arguments that are not listed here see `gke_platform`.

    Args:
        more_images: Images of other pods.
    """
    _warn_of_spot(settings)
    workload = settings.image_folder.name
    image = training_image(site, settings)
    platform = gke_platform(
        site,
        settings,
        namespace=namespace,
        # All clusters of a project share one pool of identities. With the stack's name in the account's
        # name, no pod of another stack may write to this stack's bucket.
        account=f"{workload}-{site.stack.replace('_', '-')}".rstrip("-"),
        images=[image, *(more for more in more_images if not from_same_repository(more, image, settings))],
        network_policies=network_policies,
        ray_operator=ray_operator,
        scales_by_metrics_of_pods=scales_by_metrics_of_pods,
        nodes=nodes,
    )
    on_tpus = nodes is not None and nodes.tpu_slice
    bucket = site.bucket(
        {workload: platform.account},
        settings=settings,
        # The hosts of a TPU slice write to the bucket as to a disk, which needs real folders.
        hierarchical=on_tpus,
        # Their checkpoints are 96 GB each: docs/adr/0014-soft-delete-by-size.md.
        soft_delete_days=0 if on_tpus else 7,
    )
    platform.depends_on.extend([*bucket.access, *uploaded_data(site, settings, bucket)])
    tokens = tokens_of(site, settings, namespace=platform.namespace)
    for token in tokens:
        platform.depends_on.extend(token.access)
    code = TrainingCode(
        site.name,
        TrainingCodeArgs(
            namespace=platform.namespace,
            packages=[settings.package, ENDING],
            recipe=settings.recipe_file,
        ),
    )
    variables = [token.in_pods() for token in tokens]
    return TrainingPlatform(**vars(platform), bucket=bucket, tokens=variables, code=code, image=image)
