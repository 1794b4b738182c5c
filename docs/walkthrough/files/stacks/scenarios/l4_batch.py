"""l4-batch: a batch Job of any image on one L4 spot machine, and a bucket that keeps what it writes."""

from typing import Annotated

import pulumi
from pydantic import Field

from components.cluster.capacity import CapacityType
from components.image.image import Image
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import StackContext, gke_platform
from stacks.settings import (
    Bucket,
    Cluster,
    ConfigModel,
    Default,
    Hint,
    OneCapacity,
    Project,
    Without,
    parsed_by,
)
from stacks.training.settings import MaxRunHours


class Settings(ConfigModel):
    """Settings of l4-batch."""

    # There are no alerts, and the user's image comes from where it is.
    project: Annotated[Project, Without("alertEmail"), Without("registry")]
    image: Annotated[
        Image,
        parsed_by(Image.parse),
        Hint(
            values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST",
            # A rehearsal pulls nothing: any digest will do.
            fake=f"us-docker.pkg.dev/rehearsal-project/images/batch@sha256:{'0' * 64}",
        ),
    ] = Field(examples=["REGISTRY/IMAGE@sha256:DIGEST"], description="What the job runs.")
    wait_for_job: bool = Field(
        False, description="Whether `pulumi up` ends only when the job does, and fails if the job failed."
    )
    max_run_hours: MaxRunHours = None
    capacity: Annotated[OneCapacity, Default("capacity.type", (CapacityType.SPOT,))]
    bucket: Bucket
    cluster: Cluster


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy, in the order an operator needs them."""
    stack, capacity = StackContext(settings.project), settings.capacity.capacity
    # With the stack's name in the account's name, no pod of another stack reaches this stack's bucket.
    account = f"batch-{stack.label}"
    platform = gke_platform(
        stack, settings.cluster, namespace="batch", account=account, images=[settings.image]
    )
    bucket = stack.bucket(settings.bucket, {"batch": platform.account}, hierarchical=True)
    # The same image is the same run: its folder in the bucket.
    run = f"{bucket.prefix}{settings.image.fingerprint}"
    job = BatchJob(
        stack.name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name=stack.name,
            manifest=stack.manifests / "job.yaml",
            values={
                "image": settings.image.uri,
                "serviceAccount": platform.account.account_name,
                "capacity": capacity.pod_selectors(),
                "eviction": capacity.pod_annotations(),
                "bucket": bucket.bucket_name,
                "run": run,
            },
            depends_on=[*platform.depends_on, *bucket.access],
            wait=settings.wait_for_job,
            deadline_hours=settings.max_run_hours,
        ),
    )
    output = pulumi.Output.concat("gs://", bucket.bucket_name, "/", run)
    return {
        "connect": platform.cluster.connect,
        **job.commands("watchLog"),
        "listOutput": pulumi.Output.concat("gcloud storage ls --recursive ", output),
        "copyOutput": pulumi.Output.concat("gcloud storage cp --recursive ", output, " ."),
        **bucket.removal,
    }
