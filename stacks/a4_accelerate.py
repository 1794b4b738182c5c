"""a4-accelerate: Gemma 3 12B text-to-SQL fine-tuning with FSDP2 on one A4 node (B200)."""

from typing import Final

import pulumi

from components.batch_job import BatchJob, BatchJobArgs
from components.fingerprint import fingerprint
from components.namespace import INGRESS_FROM_INSIDE
from stacks.gke_training import WORKLOADS, lay_ground, warn_of_missing_a4
from stacks.settings import A4Accelerate

NAME: Final = "a4-accelerate"
MANIFESTS: Final = WORKLOADS / NAME


def build(settings: A4Accelerate) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy, in the order an operator needs them."""
    warn_of_missing_a4(settings.capacity)
    ground = lay_ground(NAME, settings, namespace="training", network_policies=[INGRESS_FROM_INSIDE])
    # The same code on the same libraries is the same run, and resumes.
    run = f"{settings.recipe}-{fingerprint(ground.code.digest, ground.image.fingerprint)}"
    job = BatchJob(
        NAME,
        BatchJobArgs(
            namespace=ground.namespace,
            job_name=settings.recipe,
            manifest=MANIFESTS / "job.yaml",
            values={
                "image": ground.image.uri,
                "serviceAccount": ground.account.account_name,
                "capacity": settings.capacity.pod_selectors(),
                "recipe": settings.recipe,
                "bucket": ground.bucket.bucket_name,
                "run": run,
                "code": ground.code.volume,
            },
            depends_on=[*ground.depends_on, ground.code.access],
            wait=settings.wait_for_training,
            max_hours=settings.max_run_hours,
        ),
    )
    return {
        "connect": ground.cluster.connect,
        **job.commands(),
        **ground.bucket.commands(run),
    }
