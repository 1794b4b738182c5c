"""cpu-primes: a script of its own counts primes on CPUs of GKE Autopilot, and prints the count."""

from typing import Annotated, Final

import pulumi
from pydantic import Field

from components.cluster.capacity import NOT_EVICTED
from components.image.image import Image
from components.storage.training_code import TrainingCode, TrainingCodeArgs
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import StackContext, gke_platform
from stacks.settings import Cluster, ConfigModel, Project, Without

_PYTHON: Final = f"docker.io/library/python@sha256:{'a' * 64}"


class Settings(ConfigModel):
    """Settings of cpu-primes."""

    project: Annotated[Project, Without("alertEmail")]
    limit: int = Field(
        1_000_000, ge=10, le=100_000_000, description="The primes below this number are counted."
    )
    cluster: Cluster


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy."""
    stack = StackContext(settings.project)
    image = stack.reachable(Image.parse(settings.project.mirrored(_PYTHON)))
    platform = gke_platform(stack, settings.cluster, namespace="primes", account="primes", images=[image])
    code = TrainingCode(
        stack.name,
        TrainingCodeArgs(namespace=platform.namespace, packages=[stack.manifests], recipe={}),
    )
    job = BatchJob(
        stack.name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name=stack.name,
            manifest=stack.manifests / "job.yaml",
            values={
                "image": image.uri,
                "serviceAccount": platform.account.account_name,
                "eviction": NOT_EVICTED,
                "code": code.volume,
                "script": f"/code/{stack.name}/primes.py",
                "below": str(settings.limit),
            },
            depends_on=[*platform.depends_on, code.access],
            wait=False,
        ),
    )
    return {"connect": platform.cluster.connect, **job.commands("watchLog")}
