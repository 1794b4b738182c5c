"""a4-accelerate: fine-tunes Gemma 3 12B for text-to-SQL on one A4 node (8 B200)."""

import pulumi

from components.batch_job import BatchJob, BatchJobArgs
from stacks.a4 import A4Settings
from stacks.platform import Site
from stacks.served_run import command_to_serve
from stacks.training import AwaitableSettings, GemmaRecipe, GemmaSettings, run_name, training_platform


class Settings(GemmaSettings, A4Settings, AwaitableSettings):
    """Settings of a4-accelerate."""

    gpus = 8
    recipe: GemmaRecipe = "gemma-3-12b-text-to-sql"


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    settings.warn_of_missing_nodes()
    settings.warn_of_memory()
    site = Site(settings)
    platform = training_platform(site, settings, namespace="training")
    run = run_name(settings, platform.code, platform.image)
    job = BatchJob(
        site.name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name=settings.recipe_name,
            manifest=site.manifests / "job.yaml",
            values={
                "image": platform.image.uri,
                "serviceAccount": platform.account.account_name,
                "capacity": settings.capacity.pod_selectors(),
                "eviction": settings.capacity.pod_annotations(),
                "recipe": settings.recipe_name,
                "tokens": platform.tokens,
                "bucket": platform.bucket.path_in_command,
                "run": run,
                "runArguments": settings.run_arguments,
                "code": platform.code.volume,
            },
            depends_on=[*platform.depends_on, platform.code.access],
            wait=settings.wait_for_training,
            deadline_hours=settings.capacity.deadline_hours(settings.max_run_hours),
        ),
    )
    return {
        "connect": platform.cluster.connect,
        "openMonitoring": platform.cluster.monitoring,
        **job.commands("watchTraining"),
        **platform.bucket.commands(run, *settings.trained_recipe.results),
        "serveRun": command_to_serve(settings, platform.bucket, run),
    }
