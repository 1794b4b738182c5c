"""own: a program of the user's own on a GPU machine of the catalogue, or on several."""

from typing import Annotated

import pulumi
from pydantic import Field

from cloud.machines import GPU_MACHINES
from components.base.fingerprint import fingerprint
from components.cluster.capacity import FLEX_START_MAX_HOURS, CapacityType
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.a4 import A4CapacityOrQueue
from stacks.nodes.any_machine import SPOT_GRACE_SECONDS, MachineName, MachineNodes
from stacks.platform import StackContext
from stacks.program.command import check_several_machines
from stacks.program.job import program_job
from stacks.program.parts import SERVICE, ProgramParts
from stacks.program.platform import program_platform
from stacks.program.settings import Program
from stacks.settings import Bucket, Cluster, ConfigModel, Default, Project, rule
from stacks.training.image import from_same_repository, training_image
from stacks.training.settings import RunName, TrainingImage


class Settings(ConfigModel):
    """Settings of own."""

    project: Project
    program: Program
    machine: MachineName = Field(
        MachineName("g2-standard-8"), description="Machine type of the nodes. A pod has all GPUs of one."
    )
    nodes: int = Field(
        1, ge=1, le=64, description="Number of machines. Each has a pod, and the pods find each other."
    )
    capacity: Annotated[A4CapacityOrQueue, Default("capacity.type", (CapacityType.SPOT,))]
    run: RunName = None
    max_run_hours: int | None = Field(
        None,
        ge=1,
        le=FLEX_START_MAX_HOURS,
        description="Hours after which Kubernetes ends the job, all its tries together. The wait for "
        "machines counts too, except in a queue. By default there is no limit.",
    )
    wait_for_job: bool = Field(
        False, description="Whether `pulumi up` ends only when the job does, and fails if the job failed."
    )
    image: TrainingImage
    bucket: Bucket
    cluster: Cluster

    @property
    def machines(self) -> MachineNodes:
        """The machines of the program."""
        return MachineNodes(capacity=self.capacity, machine=GPU_MACHINES[self.machine], count=self.nodes)

    @rule("capacity.type")
    def _machine_is_sold(self) -> None:
        self.machines.check()

    @rule("transport")
    def _machine_has_cards(self) -> None:
        self.capacity.require_cards(self.machines.machine)

    @rule("nodes")
    def _nodes_are_in_one_zone(self) -> None:
        self.capacity.require_one_network(self.nodes)

    @rule("imageUri")
    def _something_runs(self) -> None:
        if self.image.image is None and self.program.code is None:
            raise ValueError(
                "missing, and there is no code; name your image with `pulumi config set imageUri "
                "REGISTRY/IMAGE@sha256:DIGEST`, or a folder with `pulumi config set code ./FOLDER`, which "
                "runs in the stack's own image"
            )

    @rule("command")
    def _machines_train_together(self) -> None:
        if self.nodes > 1 and self.machines.machine.count == 1:
            check_several_machines(self.program.command, {*self.program.variables, *self.program.secrets})

    @rule("graceSeconds")
    def _spot_gives_the_time(self) -> None:
        seconds = self.program.grace_seconds
        if seconds and seconds > SPOT_GRACE_SECONDS and self.machines.spot_alone:
            raise ValueError(
                f"{seconds} seconds, and a spot machine gives {SPOT_GRACE_SECONDS} at most; remove it, or "
                "choose another capacity.type"
            )


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    program, machines = settings.program, settings.machines
    program.warn()
    machines.warn(settings.project.region)
    stack = StackContext(settings.project)
    nodes = machines.of_job
    image = training_image(stack, settings.image)
    more_images = [more for more in nodes.images(stack) if not from_same_repository(stack, more, image)]
    platform = program_platform(
        stack,
        image,
        settings.bucket,
        settings.cluster,
        workload=SERVICE,
        namespace=SERVICE,
        more_images=more_images,
        nodes=nodes.standard(stack.region),
        # A checkpoint that is renamed needs real folders: docs/stacks/own.md.
        hierarchical=True,
    )
    parts = ProgramParts(stack, platform, program)
    placement = machines.place(stack, platform, settings.max_run_hours)
    depends = [program.command, program.files, program.variables, program.launcher, image.fingerprint]
    run = settings.run or f"{SERVICE}-{fingerprint(*depends)}"
    grace = machines.grace(program.grace_seconds)
    job = program_job(
        stack,
        machines.chain,
        platform,
        machines.of_program(placement, grace, parts.patch(platform)),
        parts.job(platform.bucket, run, machines.count, machines.machine.count, grace),
        wait=settings.wait_for_job,
        queue_labels=placement.queue_labels,
        depends_on=[*parts.depends_on, *placement.depends_on],
        deadline_hours=settings.max_run_hours,
    )
    folder = pulumi.Output.concat(platform.bucket.uri, "/", run)
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(stack, platform, [*GPUS, *placement.charts]),
        **placement.outputs,
        **job.commands("watchLog"),
        "run": run,
        "listOutput": pulumi.Output.concat("gcloud storage ls --recursive ", folder),
        "copyOutput": pulumi.Output.concat("gcloud storage cp --recursive ", folder, " ."),
        **platform.bucket.removal,
    }
