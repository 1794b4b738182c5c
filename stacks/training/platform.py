"""The parts that training adds to a platform: an image, code, tokens, and on GKE a bucket for the pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import pulumi
from pydantic import Field

from components.base.fingerprint import fingerprint
from components.cluster.capacity import CapacityType
from components.image.image import Image
from components.storage.bucket import Storage
from components.storage.data_files import DataFiles, DataFilesArgs
from components.storage.training_code import BucketCode, TrainingCode, TrainingCodeArgs
from stacks.platform import WORKLOADS, StackContext, StandardNodes
from stacks.program.platform import ProgramPlatform, program_platform
from stacks.settings.bucket import Bucket
from stacks.settings.cluster import Cluster
from stacks.training.image import from_same_repository, training_image
from stacks.training.settings import Training, TrainingImage
from stacks.training.tokens import declare_tokens

WaitForTraining = Annotated[
    bool,
    Field(
        description="Whether `pulumi up` waits for the end of the training, and fails if the training fails."
    ),
]
# The packages that are shipped with the code of every trainer: what ends runs, and what reads conversations.
SHARED: Final = (WORKLOADS / "shared", WORKLOADS / "conversations")


@dataclass(frozen=True, kw_only=True)
class TrainingPlatform(ProgramPlatform):
    """A platform with everything that training needs: a bucket, an image, tokens and code.

    Args:
        tokens: Environment variables of the containers that train.
    """

    tokens: list[dict[str, Any]]
    code: TrainingCode


def uploaded_data(stack: StackContext, training: Training, bucket: Storage) -> list[pulumi.Resource]:
    """Declares the upload of the rows that are on this disk, and returns the resources to wait for."""
    files = training.data_files
    if not files:
        return []
    placed = {f"{bucket.prefix}{name}": path for name, path in files.items()}
    return DataFiles(stack.name, DataFilesArgs(bucket=bucket.bucket_name, files=placed)).access


def run_name(training: Training, code: TrainingCode | BucketCode, image: Image, *more: object) -> str:
    """Name of the run, which resumes under the same name.

    By default it contains a digest of everything that the run depends on: recipe, code, libraries and `more`.
    """
    return training.run or f"{training.recipe_name}-{fingerprint(code.run_digest, image.fingerprint, *more)}"


def warn_of_spot(types: Sequence[CapacityType]) -> None:
    """Warns of what a run loses on spot machines."""
    if CapacityType.SPOT in types:
        # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
        pulumi.log.warn(
            "capacity.type spot: when Google takes a node back, its pods have at most 25 seconds, even with "
            "a longer grace period; a run that cannot save in that time resumes from its newest checkpoint"
        )


def training_platform(
    stack: StackContext,
    training: Training,
    image: TrainingImage,
    bucket: Bucket,
    cluster: Cluster,
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
    own = training_image(stack, image)
    on_tpus = nodes is not None and nodes.tpu_slice
    platform = program_platform(
        stack,
        own,
        bucket,
        cluster,
        workload=image.folder.name,
        namespace=namespace,
        more_images=[more for more in more_images if not from_same_repository(stack, more, own)],
        network_policies=network_policies,
        ray_operator=ray_operator,
        scales_by_metrics_of_pods=scales_by_metrics_of_pods,
        nodes=nodes,
        # The hosts of a TPU slice write to the bucket as to a disk, which needs real folders.
        hierarchical=on_tpus,
        # Their checkpoints are 96 GB each: docs/adr/0014-soft-delete-by-size.md.
        soft_delete_days=0 if on_tpus else 7,
    )
    platform.depends_on.extend(uploaded_data(stack, training, platform.bucket))
    tokens = declare_tokens(stack, training.tokens, namespace=platform.namespace)
    for token in tokens:
        platform.depends_on.extend(token.access)
    code = TrainingCode(
        stack.name,
        TrainingCodeArgs(
            namespace=platform.namespace,
            packages=[training.package, *training.helpers, *SHARED],
            recipe=training.recipe_file,
        ),
    )
    variables = [token.in_pods() for token in tokens]
    return TrainingPlatform(**vars(platform), tokens=variables, code=code)
