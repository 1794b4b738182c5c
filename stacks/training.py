"""The parts that training adds to a platform: an image, code, tokens, and on GKE a bucket for the pods."""

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import pulumi
from pydantic import Field, SecretStr, ValidationInfo, field_validator

from cloud import cloudbuild
from cloud.machines import Accelerator
from components.bucket import Bucket
from components.capacity import CapacityType
from components.cloud_build.image_build import ImageBuild, ImageBuildArgs
from components.data_files import DataFiles, DataFilesArgs
from components.fingerprint import fingerprint
from components.image import ContainerRepository, ContainerRepositoryArgs, Image
from components.namespace import Namespace
from components.token import HuggingFaceToken, Token, TokenArgs, WandbKey
from components.training_code import BucketCode, TrainingCode, TrainingCodeArgs
from stacks.fit import command_for, doubt_of, is_known
from stacks.platform import (
    WORKLOADS,
    BucketSettings,
    GkePlatform,
    GkeSettings,
    ImageByDigest,
    Site,
    StackSettings,
    StandardNodes,
    gke_platform,
)
from stacks.reader import REGION, Hint
from stacks.recipe import RECIPE, RecipeSettings
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
# An access token, or the token of a sign-in at the Hub.
_TOKEN: Final = re.compile(r"hf_[A-Za-z0-9_.-]+")
HUB_TOKEN: Final = Hint(values="a Hugging Face read token", fake="hf_rehearsal_not_a_token")


# An API key, before which an installation of one's own puts a name and a hyphen: what W&B's client accepts.
# https://github.com/wandb/wandb/blob/main/wandb/sdk/lib/wbauth/validation.py
_WANDB_KEY: Final = re.compile(r"(.+-)?[A-Za-z0-9_]{40,}")


def _one_word(secret: SecretStr) -> SecretStr:
    text = secret.get_secret_value()
    if text.split() != [text]:
        raise ValueError("is empty or holds white space")
    return secret


class TrainingSettings(BucketSettings, RecipeSettings):
    """Settings of every scenario that trains."""

    hf_token: Annotated[SecretStr | None, HUB_TOKEN]
    image: ImageByDigest = Field(
        None,
        alias="imageUri",
        description="Image that was built from the workload's Dockerfile. By default the stack builds it.",
    )
    build_region: Annotated[str | None, Hint(values="a region such as us-central1 (not a zone)")] = Field(
        None,
        pattern=REGION,
        description="Region in which Cloud Build builds the image. By default the stack's region if every "
        f"project may build there, else {cloudbuild.OPEN_REGIONS[0]}. The image itself is always kept in the "
        "stack's region.",
    )
    scan_images: bool = Field(
        False,
        description="Whether Artifact Registry scans the image that the stack builds. Google bills every "
        "scan.",
    )

    @property
    def data_files(self) -> dict[str, Path]:
        """Files on this disk that the training reads, by their names in the stack's bucket."""
        return {}

    @property
    def limit_arguments(self) -> list[str]:
        """The trainer's arguments for its time limit."""
        return [] if self.max_run_hours is None else [f"--max-run-hours={self.max_run_hours}"]

    @property
    def tokens(self) -> dict[type[Token], SecretStr | None]:
        """The tokens that a trainer uses, None where one is not set."""
        return {HuggingFaceToken: self.hf_token}

    @field_validator("hf_token")
    @classmethod
    def _looks_like_a_hub_token(cls, token: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(_one_word(token).get_secret_value()):
            raise ValueError("does not begin with hf_, or has characters that no token has")
        return token

    @field_validator("build_region", "scan_images")
    @classmethod
    def _needs_a_build(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("image"):
            raise ValueError("with imageUri nothing is built; remove one of the two")
        return value


class GemmaSettings(TrainingSettings):
    """Settings of every scenario that fine-tunes a Gemma model.

    Attributes:
        gpu: GPU model that the scenario trains on.
        gpus: Smallest number of GPUs that it trains on.
    """

    load_recipe = staticmethod(load_recipe)
    package = FINETUNE
    gpu: ClassVar[Accelerator]
    gpus: ClassVar[int]
    hf_token: Annotated[SecretStr, HUB_TOKEN] = Field(
        description="Hugging Face read token of an account that accepted the model's licence."
    )
    wandb_key: Annotated[SecretStr | None, Hint(values="an API key of Weights & Biases")] = Field(
        None, description="API key of Weights & Biases, for a recipe that reports to `wandb`."
    )

    @field_validator("wandb_key")
    @classmethod
    def _looks_like_a_wandb_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not _WANDB_KEY.fullmatch(_one_word(key).get_secret_value()):
            raise ValueError("is shorter than 40 characters, or has characters that no key has")
        return key

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


def training_image(site: Site, settings: TrainingSettings, context: Path) -> Image:
    """The image from the settings, or one that the stack builds from `context` and names after the folder."""
    if settings.image:
        return settings.image
    repository = ContainerRepository(
        site.name,
        ContainerRepositoryArgs(
            project=site.project_for(ContainerRepository),
            location=settings.region,
            repository_id=f"images-{site.stack.replace('_', '-')}"[:63].rstrip("-"),
            labels=site.labels,
            vulnerability_scanning=settings.scan_images,
        ),
    )
    return ImageBuild(
        site.name,
        ImageBuildArgs(
            project=site.project_for(ImageBuild),
            location=settings.region,
            build_region=settings.build_region or cloudbuild.build_region(settings.region),
            context=context,
            repository=repository,
            image_name=context.name,
            labels=site.labels,
        ),
    ).image


def tokens_of(
    site: Site,
    settings: TrainingSettings,
    *,
    readers: Mapping[str, pulumi.Input[str]] | None = None,
    namespace: Namespace | None = None,
) -> list[Token]:
    """Declares the tokens that are set. For the arguments see `TokenArgs`."""
    return [
        kind(
            site.name,
            TokenArgs(
                project=site.project_for(kind),
                token=pulumi.Output.secret(token.get_secret_value()),
                secret_id=f"{site.stack}-{kind.title}",
                labels=site.labels,
                readers=readers or {},
                namespace=namespace,
            ),
        )
        for kind, token in settings.tokens.items()
        if token is not None
    ]


@dataclass(frozen=True, kw_only=True)
class TrainingPlatform(GkePlatform):
    """A platform with everything that training needs: a bucket, tokens, code and an image.

    Args:
        tokens: Environment variables of the containers that train.
    """

    bucket: Bucket
    tokens: list[dict[str, Any]]
    code: TrainingCode
    image: Image


def uploaded_data(site: Site, settings: TrainingSettings, bucket: Bucket) -> list[pulumi.Resource]:
    """Declares the upload of the rows that are on this disk, and returns the resources to wait for."""
    files = settings.data_files
    if not files:
        return []
    return DataFiles(site.name, DataFilesArgs(bucket=bucket.bucket_name, files=files)).access


def run_name(settings: TrainingSettings, code: TrainingCode | BucketCode, image: Image, *more: object) -> str:
    """Name of the run, which resumes under the same name.

    By default it contains a digest of everything that the run depends on: recipe, code, libraries and `more`.
    """
    return settings.run or f"{settings.recipe_name}-{fingerprint(code.run_digest, image.fingerprint, *more)}"


def _from_same_repository(image: Image, own: Image, settings: StackSettings) -> bool:
    """Whether an image of the settings is in the repository of the stack's own image.

    The repository that the stack creates has an output as its project.
    """
    if not image.repository or not own.repository:
        return False
    project = own.repository.project if isinstance(own.repository.project, str) else settings.project
    return image.repository == replace(own.repository, project=project)


def training_platform(
    site: Site,
    settings: GkeTrainingSettings,
    *,
    namespace: str,
    network_policies: Sequence[Path] = (),
    ray_operator: bool = False,
    nodes: StandardNodes | None = None,
    folder: Path = FINETUNE,
    more_images: Sequence[Image] = (),
) -> TrainingPlatform:
    """Declares a platform, and on it the image, the bucket, the code and the tokens that are set.

    For the arguments that are not listed here see `gke_platform`.

    Args:
        folder: Folder with the Dockerfile. The image has the folder's name, and the service account's name
            begins with it.
        more_images: Images of other pods.
    """
    if settings.capacity_type is CapacityType.SPOT:
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
        pulumi.log.warn(
            "capacity.type spot: when Google takes a node back, its pods have at most 25 seconds, even with "
            "a longer grace period; a run that cannot save in that time resumes from its newest checkpoint"
        )
    image = training_image(site, settings, folder)
    platform = gke_platform(
        site,
        settings,
        namespace=namespace,
        # All clusters of a project share one pool of identities. With the stack's name in the account's
        # name, no pod of another stack may write to this stack's bucket.
        account=f"{folder.name}-{site.stack.replace('_', '-')}".rstrip("-"),
        images=[image, *(more for more in more_images if not _from_same_repository(more, image, settings))],
        network_policies=network_policies,
        ray_operator=ray_operator,
        nodes=nodes,
    )
    on_tpus = nodes is not None and nodes.tpu_slice
    bucket = site.bucket(
        {folder.name: platform.account},
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
