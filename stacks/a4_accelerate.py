"""a4-accelerate: fine-tunes Gemma 3 12B for text-to-SQL with FSDP2 on one A4 node (8 B200)."""

import pulumi

from components.batch_job import BatchJob, BatchJobArgs
from stacks.a4 import A4Settings
from stacks.platform import Site
from stacks.training import AwaitableSettings, GemmaRecipe, GemmaSettings, lay_ground


class Settings(GemmaSettings, A4Settings, AwaitableSettings):
    """Settings of a4-accelerate."""

    gpus = 8
    recipe: GemmaRecipe = "gemma-3-12b-text-to-sql"


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    settings.warn_of_missing_nodes()
    settings.warn_of_memory()
    site = Site(settings)
    ground = lay_ground(site, settings, namespace="training")
    run = ground.run(settings.recipe)
    job = BatchJob(
        site.name,
        BatchJobArgs(
            namespace=ground.namespace,
            job_name=settings.recipe,
            manifest=site.manifests / "job.yaml",
            values={
                "image": ground.image.uri,
                "serviceAccount": ground.account.account_name,
                "capacity": settings.capacity.pod_selectors(),
                "eviction": settings.capacity.pod_annotations(),
                "recipe": settings.recipe,
                "tokens": ground.tokens,
                "bucket": ground.bucket.name_in_command,
                "run": run,
                "limitArguments": settings.limit_arguments,
                "code": ground.code.volume,
            },
            depends_on=[*ground.depends_on, ground.code.access],
            wait=settings.wait_for_training,
            deadline_hours=settings.capacity.deadline_hours(settings.max_run_hours),
        ),
    )
    return {
        "connect": ground.cluster.connect,
        "openMonitoring": ground.cluster.monitoring,
        **job.commands("watchTraining"),
        **ground.bucket.commands(run),
    }
