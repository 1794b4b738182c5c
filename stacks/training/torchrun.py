"""The fine-tune as a Kubernetes Job: one pod per node, one process per GPU, without Ray."""

from collections.abc import Mapping, Sequence
from typing import Final

import pulumi

from cloud.machines import GPU_RESOURCE
from components.base.fingerprint import joined
from components.capacity.capacity_chain import CapacityChain
from components.workload.batch_job import BatchJob
from stacks.platform import StackContext
from stacks.program.environment import variables
from stacks.program.job import JobProgram, ProgramNodes, meeting_place, program_job
from stacks.training.platform import TrainingPlatform
from stacks.training.settings import FineTuning

# Name of the Service through which the pods find each other, and label `app` of the pods.
SERVICE: Final = "finetune"
# Bad input (a wrong recipe, a gated model), or the time limit: workloads/shared/exit_codes.py.
_FINAL: Final = (2, 3)


def torchrun_job(
    stack: StackContext,
    training: FineTuning,
    chain: CapacityChain,
    platform: TrainingPlatform,
    nodes: ProgramNodes,
    run: str,
    *,
    wait: bool,
    price: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    queue_labels: Mapping[str, str] | None = None,
    depends_on: Sequence[pulumi.Resource] = (),
) -> BatchJob:
    """Declares the Job.

    Args:
        chain: The capacities of the nodes.
        run: Name of the run.
        wait: See `JobArgs`.
        price: See `price_of_machines`. Without it the log has no dollars.
        arguments: Arguments of the trainer besides those of every fine-tune.
        queue_labels: Labels with which the Job waits in a queue of Kueue.
        depends_on: Resources that the pods need besides those of the platform.
    """
    return program_job(
        stack,
        chain,
        platform,
        nodes,
        JobProgram(
            name=training.recipe_name,
            service=SERVICE,
            command=["python", "-m", "finetune", "torchrun"],
            arguments=[
                f"--recipe={training.recipe_name}",
                joined("--storage=gs://", platform.bucket.path_in_command),
                f"--run={run}",
                f"--processes={nodes.size[GPU_RESOURCE]}",
                f"--nodes={nodes.count}",
                f"--rendezvous={meeting_place(SERVICE)}",  # of several nodes
                *arguments,
                *training.run_arguments,
            ],
            variables=[*platform.tokens, *variables(price or {})],
            home="/tmp/home",  # apart from what comes from the bucket
            code={"code": platform.code.volume},
            final=_FINAL,
        ),
        wait=wait,
        queue_labels=queue_labels,
        depends_on=[platform.code.access, *depends_on],
        deadline_hours=chain.deadline_hours(training.max_run_hours),
    )
