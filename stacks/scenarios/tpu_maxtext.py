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
from stacks.settings.cluster import MOST_NODES
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
    slices: int = Field(
        1,
        ge=1,
        # Each has two machines at least.
        le=MOST_NODES // 2,
        description="Slices of that shape that train one model together. By default each of them has all "
        "weights and a part of the batch. They talk over the data centre's network.",
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
    def hosts(self) -> int:
        """Machines of all slices."""
        return self.slice.hosts * self.slices

    @property
    def shape(self) -> str:
        """What the run's name says of the chips, because the batch and its parts depend on it."""
        shape = f"{self.tpu_version} {self.slice.topology}"
        return shape if self.slices == 1 else f"{self.slices} x {shape}"

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
        fixed = self._fixed_parallelism("ici_", "ici_fsdp_parallelism", self.slice.chips)
        if fixed:
            slices = TPU_SLICES[self.tpu_version].values()
            shapes = [shape.topology for shape in slices if shape.chips == fixed]
            remedy = "choose another recipe"
            if shapes:
                remedy = f"set topology to {shapes[0]} or {remedy}"
            raise ValueError(
                f"a {self.topology} slice has {self.slice.chips} chips, and the recipe "
                f"{self.training.recipe} divides the model over {fixed}; {remedy}"
            )

    @rule("slices")
    def _slices_have_several_machines(self) -> None:
        """Rejects several slices of one machine each, which GKE does not join.

        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/tpu-multislice
        """
        if self.slices == 1 or self.topology not in TPU_SLICES[self.tpu_version] or self.slice.hosts > 1:
            return
        shapes = [shape for shape in TPU_SLICES[self.tpu_version].values() if shape.hosts > 1]
        raise ValueError(
            f"GKE joins slices of several machines alone, and a {self.topology} slice is one machine; set "
            f"slices to 1, or topology to one of {', '.join(shape.topology for shape in shapes)}"
        )

    @rule("slices")
    def _machines_have_addresses(self) -> None:
        """Rejects more machines than the smallest network of a stack has room for."""
        if self.slices > 1 and self.topology in TPU_SLICES[self.tpu_version] and self.hosts > MOST_NODES:
            raise ValueError(
                f"{self.slices} slices of {self.slice.hosts} machines are more than {MOST_NODES} machines, "
                "the most that a stack may have; set fewer slices or a smaller topology"
            )

    @rule("slices")
    def _slices_fit_the_recipe(self) -> None:
        """Rejects a number of slices that does not fit the recipe's parallelism between slices.

        In MaxText their product is the number of slices. `dcn_data_parallelism` is -1 unless the recipe sets
        it.
        """
        fixed = self._fixed_parallelism("dcn_", "dcn_data_parallelism", self.slices)
        if fixed:
            raise ValueError(
                f"the recipe {self.training.recipe} divides the training over {fixed} slices (dcn_...); set "
                f"slices to {fixed}, or choose another recipe"
            )

    def _fixed_parallelism(self, prefix: str, open_by_default: str, size: int) -> int | None:
        """The product of the recipe's sizes with this prefix if it does not fit `size`. None if it does."""
        maxtext = {open_by_default: -1, **self.training.trained_recipe.maxtext}
        sizes = [
            value for name, value in maxtext.items() if name.startswith(prefix) and isinstance(value, int)
        ]
        fixed = prod(value for value in sizes if value > 0)
        fits = size % fixed == 0 and (size == fixed or -1 in sizes)
        return None if fits else fixed

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
    training = settings.training
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
    nodes = [_head_pool(stack, settings, platform).ready, *_slice_pools(stack, settings, platform)]
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
    run = run_name(training, platform.code, platform.image, settings.shape)
    folder = platform.bucket.prefix.rstrip("/")
    output = f"{BUCKET_MOUNT} --folder {folder}" if folder else BUCKET_MOUNT
    job = RayJob(
        stack.name,
        RayJobArgs(
            job_name=training.recipe_name,
            entrypoint=" ".join(
                [
                    f"python -m maxtext_driver --recipe {training.recipe_name} --output {output}",
                    f"--run {run}",
                    *_placement(settings),
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


def _placement(settings: Settings) -> list[str]:
    """The driver's arguments about the slices."""
    tpu_slice, slices = settings.slice, settings.slices
    return [
        f"--workers {settings.hosts} --topology {tpu_slice.topology}",
        f"--accelerator {tpu_slice.model.ray_name}",
        *([f"--slices {slices}"] if slices > 1 else []),
    ]


def _price(settings: Settings) -> dict[str, str]:
    """The environment variable with the price of all slices."""
    machine, chain = settings.slice.machine, CapacityChain(capacities=(settings.capacity.capacity,))
    return price_of_machines(chain, machine, settings.hosts, autopilot=False, disk_gb=_SLICE_DISK_GB)


def _workers(settings: Settings) -> RayWorkers:
    """One pod per host of the slices, with all chips of the host.

    GKE's webhook keeps the pods of a replica on one node pool: assumption tpu-slices-apart. Slices reach each
    other over the nodes' first network: assumption tpu-slices-network. The pod has the node's limit of locked
    memory: assumption tpu-locked-memory.
    """
    tpu_slice = settings.slice
    return RayWorkers(
        group="tpu",
        # The hosts of a slice start and end together, and without those of the other slices.
        replicas=settings.slices,
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


def _slice_pools(
    stack: StackContext, settings: Settings, platform: TrainingPlatform
) -> list[pulumi.Resource]:
    """A node pool for each slice, so that GKE places, loses and replaces a slice without the others."""
    tpu_slice = settings.slice
    pool = NodePoolArgs(
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
    )
    # The first slice has the same name however many there are, so it stays when their number changes.
    others = [f"{stack.name}-slice-{number}" for number in range(2, settings.slices + 1)]
    return [NodePool(name, pool).ready for name in (f"{stack.name}-slice", *others)]
