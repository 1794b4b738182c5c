"""tpu-maxtext: trains Llama 3 8B with MaxText on a slice of TPU chips, with Ray on GKE Standard."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from math import prod
from typing import Annotated, Final

import pulumi
from pydantic import Field

from cloud.accelerators import TPUS as VERSIONS
from cloud.machines import MACHINES
from cloud.slices import TPU_SLICES, Slice
from components.base.pod_patch import PodPatch
from components.capacity.capacity_chain import CapacityChain
from components.cluster.capacity import CapacityType
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from components.workload.ray import BUCKET_MOUNT, RAY_WORKERS, RayClusterArgs, RayJob, RayJobArgs, RayWorkers
from stacks import pins
from stacks.monitoring import TPUS, gke_monitoring
from stacks.nodes.price import price_of_machines
from stacks.platform import StackContext, StandardNodes
from stacks.program.environment import variables
from stacks.serving.served_run import command_to_serve
from stacks.settings import Bucket, Cluster, ConfigModel, Hint, OneCapacity, Project, rule
from stacks.training.maxtext import MaxTextImage, MaxTextTraining
from stacks.training.platform import (
    TrainingPlatform,
    WaitForTraining,
    run_name,
    training_platform,
    warn_of_spot,
)

# The Ray head requests 8 CPUs and 32 GiB. The machines of the other node pools are too small or too precious.
_HEAD_MACHINE: Final = MACHINES["e2-standard-16"]
_HEAD_DISK_GB: Final = 100
# For images and the scratch space of the pod that trains.
_SLICE_DISK_GB: Final = 200

_Version = StrEnum("_Version", {version: version for version in VERSIONS})
_Topology = StrEnum(
    "_Topology", {topology: topology for shapes in TPU_SLICES.values() for topology in shapes}
)


class Settings(ConfigModel):
    """Settings of tpu-maxtext."""

    project: Project
    tpu_version: Annotated[
        _Version,
        Hint(values=f"one of {', '.join(VERSIONS)} (docs/machines.md says why there is no TPU7x)"),
    ] = Field(_Version("v6e"), description="Generation of the TPU chips.")
    # The tutorial's slice.
    topology: _Topology = Field(
        _Topology("4x4"),
        description="Shape of the TPU slice, which decides how many machines it has and of which type.",
    )
    zone: Annotated[
        str | None,
        Hint(
            values="a zone such as us-east5-b (not a region)",
            default="the region's first zone with these chips",
        ),
    ] = Field(
        None,
        pattern=r"^([a-z]+(-[a-z]+)+[0-9]+-[a-z0-9]+)?$",
        description="Zone of the slice and of the cluster. "
        "By default the region's first zone with these chips.",
    )
    capacity: OneCapacity
    training: MaxTextTraining
    wait_for_training: WaitForTraining = False
    image: MaxTextImage
    bucket: Bucket
    cluster: Cluster

    @property
    def slice(self) -> Slice:
        """The TPU slice, in the catalogue."""
        return TPU_SLICES[self.tpu_version][self.topology]

    @property
    def zone_of_slice(self) -> str:
        """Zone of the slice and of the cluster. Empty if none is set and the region has no such chips."""
        first_zones = self._offered_zones.get(self.project.region, ("",))
        return first_zones[0] if self.zone is None else self.zone

    @property
    def _offered_zones(self) -> Mapping[str, tuple[str, ...]]:
        (kind,) = self.capacity.capacity_types
        model = VERSIONS[self.tpu_version]
        return model.flex_start_zones if kind is CapacityType.FLEX_START else model.zones

    @rule("topology")
    def _topology_exists(self) -> None:
        """Rejects a shape that slices of these chips do not have."""
        shapes = TPU_SLICES[self.tpu_version]
        if self.topology not in shapes:
            raise ValueError(
                f"there is no {self.topology} slice of TPU {self.tpu_version}; choose one of "
                f"{', '.join(shapes)}"
            )

    @rule("topology")
    def _topology_fits_the_recipe(self) -> None:
        """Rejects a slice whose number of chips does not fit the recipe's parallelism.

        In MaxText the product of all parallelism sizes is the number of chips, and a size of -1 takes the
        rest. `ici_fsdp_parallelism` is -1 unless the recipe sets it.
        """
        if self.topology not in TPU_SLICES[self.tpu_version]:
            return
        maxtext = {"ici_fsdp_parallelism": -1, **self.training.trained_recipe.maxtext}
        sizes = [size for name, size in maxtext.items() if name.startswith("ici_") and isinstance(size, int)]
        fixed, chips = prod(size for size in sizes if size > 0), self.slice.chips
        if chips % fixed or (chips != fixed and -1 not in sizes):
            slices = TPU_SLICES[self.tpu_version].values()
            shapes = [shape.topology for shape in slices if shape.chips == fixed]
            remedy = "choose another recipe"
            if shapes:
                remedy = f"set topology to {shapes[0]} or {remedy}"
            raise ValueError(
                f"a {self.topology} slice has {chips} chips, and the recipe {self.training.recipe} divides "
                f"the model over {fixed}; {remedy}"
            )

    @rule("zone")
    def _zone_has_the_chips(self) -> None:
        """Rejects a zone in which no slice would ever start. A reservation may be in any zone."""
        region, zone, offered = self.project.region, self.zone_of_slice, self._offered_zones
        (kind,) = self.capacity.capacity_types
        remedy = f"it is in {', '.join(chain.from_iterable(offered.values()))}"
        problem = f"has no TPU {self.tpu_version}"
        if kind is CapacityType.FLEX_START:
            problem += " with flex-start"
        if not zone and region not in offered:
            if kind is CapacityType.RESERVATION:
                remedy = f"set the zone of the reservation with `pulumi config set zone ZONE`; {remedy}"
            raise ValueError(f"{region} {problem}; {remedy}")
        if zone.rpartition("-")[0] != region:
            raise ValueError(f"{zone or 'an empty text'} is not a zone of {region}, the stack's gcp:region")
        if kind is not CapacityType.RESERVATION and zone not in offered.get(region, ()):
            raise ValueError(f"{zone} {problem}; {remedy}")


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    tpu_slice, training = settings.slice, settings.training
    warn_of_spot(settings.capacity.capacity_types)
    stack = StackContext(settings.project)
    platform = training_platform(
        stack,
        training,
        settings.image,
        settings.bucket,
        settings.cluster,
        namespace="ray",
        ray_operator=True,
        nodes=StandardNodes.with_tpu_slice(settings.zone_of_slice),
    )
    nodes = [_head_pool(stack, settings, platform).ready, _slice_pool(stack, settings, platform).ready]
    ray = RayClusterArgs(
        namespace=platform.namespace,
        ray_version=pins.RAY_VERSION,
        image=platform.image,
        service_account=platform.account.account_name,
        workers=_workers(settings),
        variables=[*platform.tokens, *variables(_price(settings))],
        bucket=platform.bucket.name_in_command,
        depends_on=[*platform.depends_on, *nodes],
    )
    run = run_name(training, platform.code, platform.image, f"{settings.tpu_version} {tpu_slice.topology}")
    folder = platform.bucket.prefix.rstrip("/")
    output = f"{BUCKET_MOUNT} --folder {folder}" if folder else BUCKET_MOUNT
    job = RayJob(
        stack.name,
        RayJobArgs(
            job_name=training.recipe_name,
            entrypoint=" ".join(
                [
                    f"python -m maxtext_driver --recipe {training.recipe_name} --output {output}",
                    f"--run {run} --workers {tpu_slice.hosts} --topology {tpu_slice.topology}",
                    f"--accelerator {tpu_slice.model.ray_name}",
                    *training.run_arguments,
                ]
            ),
            code=platform.code,
            cluster=ray,
            wait=settings.wait_for_training,
            deadline_hours=settings.capacity.capacity.deadline_hours(training.max_run_hours),
        ),
    )
    # Only a run that started from published weights has the tokenizer that an export needs.
    is_exported = bool(training.trained_recipe.weights)
    serve = {"serveRun": command_to_serve(stack.project, platform.bucket, run)} if is_exported else {}
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            stack, platform, [*TPUS, "training", "tokens-per-chip", "ray"], trainers=RAY_WORKERS
        ),
        **job.commands(),
        **platform.bucket.commands(run, "checkpoints"),
        **serve,
        "result": job.result,
    }


def _price(settings: Settings) -> dict[str, str]:
    """The environment variable with the price of the slice."""
    tpu_slice, chain = settings.slice, CapacityChain(capacities=(settings.capacity.capacity,))
    return price_of_machines(
        chain, tpu_slice.machine, tpu_slice.hosts, autopilot=False, disk_gb=_SLICE_DISK_GB
    )


def _workers(settings: Settings) -> RayWorkers:
    """One pod per host of the slice, with all chips of the host.

    The pod has the node's limit of locked memory: assumption tpu-locked-memory.
    """
    tpu_slice = settings.slice
    return RayWorkers(
        group="tpu",
        # One slice, whose hosts start and end together.
        replicas=1,
        slice_hosts=tpu_slice.hosts,
        annotations=settings.capacity.capacity.pod_annotations(),
        size={
            "cpu": str(tpu_slice.machine.pod_cpus),
            "memory": f"{tpu_slice.machine.pod_memory_gib}Gi",
            "ephemeral-storage": "50Gi",
            tpu_slice.machine.resource: str(tpu_slice.machine.count),
        },
        node_selector=tpu_slice.node_labels,
        shared_memory="32Gi",
        scratch="40Gi",
        # GKE reads what the chips do from this port of the program's container: assumption node-duty-cycle.
        patch=PodPatch(container={"ports": [{"name": "tpu-metrics", "containerPort": 8431}]}),
    )


def _head_pool(stack: StackContext, settings: Settings, platform: TrainingPlatform) -> NodePool:
    return NodePool(
        f"{stack.name}-head",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=_HEAD_MACHINE,
            zones=[settings.zone_of_slice],
            minimum=1,
            maximum=1,
            disk_gb=_HEAD_DISK_GB,
        ),
    )


def _slice_pool(stack: StackContext, settings: Settings, platform: TrainingPlatform) -> NodePool:
    tpu_slice = settings.slice
    return NodePool(
        f"{stack.name}-slice",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=tpu_slice.machine,
            zones=[settings.zone_of_slice],
            # All hosts or none. Flex-start creates machines only when pods request them.
            minimum=0 if settings.capacity.capacity.flex_start else tpu_slice.hosts,
            maximum=tpu_slice.hosts,
            disk_gb=_SLICE_DISK_GB,
            tpu_topology=tpu_slice.topology,
            capacity=settings.capacity.capacity,
            run_hours=settings.training.max_run_hours,
        ),
    )
