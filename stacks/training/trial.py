"""The trial of a recipe on a CPU, for which everything with accelerators waits on GKE."""

from collections.abc import Sequence
from typing import Annotated, Final

import pulumi
from pydantic import Field

from components.storage.training_code import TrainingCode, TrainingCodeArgs
from components.workload.batch_job import BatchJob, BatchJobArgs
from stacks.platform import WORKLOADS, StackContext
from stacks.training.platform import TrainingPlatform
from stacks.training.settings import FineTuning

Trial = Annotated[
    bool,
    Field(
        description="Whether a Job tries the recipe on a CPU before the training gets accelerators "
        "(`docs/training/trial.md`). It takes some minutes after a change of code, image or recipe."
    ),
]
_PACKAGE: Final = WORKLOADS / "trial"


def declare_trial(
    stack: StackContext,
    training: FineTuning,
    platform: TrainingPlatform,
    run: str,
    *,
    tries: bool,
    depends_on: Sequence[pulumi.Resource] = (),
) -> list[pulumi.Resource]:
    """Declares the Job that tries the recipe, and returns the resources that exist once it has passed.

    Args:
        run: Name of the run. A run that has a checkpoint is not tried.
        tries: The setting. Without a trial there is nothing to wait for.
        depends_on: Resources besides those of the platform that any pod must wait for.
    """
    if not tries:
        return []
    name = f"{stack.name}-trial"
    # Apart from the trainer's code, whose digest names the run: an edit of the trial begins no new run.
    code = TrainingCode(name, TrainingCodeArgs(namespace=platform.namespace, packages=[_PACKAGE], recipe={}))
    job = BatchJob(
        name,
        BatchJobArgs(
            namespace=platform.namespace,
            job_name="trial",
            manifest=_PACKAGE / "job.yaml",
            values={
                "serviceAccount": platform.account.account_name,
                "image": platform.image.uri,
                "recipe": training.recipe_name,
                "bucket": platform.bucket.path_in_command,
                "run": run,
                "tokens": platform.tokens,
                "code": platform.code.volume,
                "trial": code.volume,
            },
            wait=True,
            depends_on=[*platform.depends_on, platform.code.access, code.access, *depends_on],
        ),
    )
    return [job.ended]
