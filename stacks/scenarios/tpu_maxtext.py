"""tpu-maxtext: trains Llama 3 8B with MaxText on a TPU v6e slice, with Ray on GKE Standard."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import chain
from math import prod
from typing import Annotated, Any, Final

import pulumi
from pydantic import Field, SecretStr, ValidationInfo, field_validator

from cloud.machines import MACHINES, TPU_SLICES, V6E, Slice
from components.cluster.capacity import CapacityType
from components.cluster.standard_cluster import NodePool, NodePoolArgs
from components.workload.ray import BUCKET_MOUNT, RAY_WORKERS, RayClusterArgs, RayJob, RayJobArgs, RayWorkers
from stacks import pins
from stacks.monitoring import TPUS, gke_monitoring
from stacks.platform import WORKLOADS, Site, StandardNodes
from stacks.serving.served_run import command_to_serve
from stacks.settings.capacity import kind_of
from stacks.settings.reader import Hint
from stacks.training.platform import (
    HUB_TOKEN,
    AwaitableSettings,
    TrainingPlatform,
    run_name,
    training_platform,
)
from stacks.training.recipe import RECIPE
from workloads.maxtext.maxtext_driver.recipe import load_recipe

MAXTEXT: Final = WORKLOADS / "maxtext"

# The Ray head requests 8 CPUs and 32 GiB. The machines of the other node pools are too small or too precious.
_HEAD_MACHINE: Final = MACHINES["e2-standard-16"]
_HEAD_DISK_GB: Final = 100
# For images and the scratch space of the pod that trains.
_SLICE_DISK_GB: Final = 200

_Topology = StrEnum("_Topology", {topology: topology for topology in TPU_SLICES})


class Settings(AwaitableSettings):
    """Settings of tpu-maxtext."""

    load_recipe = staticmethod(load_recipe)
    image_folder = MAXTEXT
    package = MAXTEXT / "maxtext_driver"
    hf_token: Annotated[SecretStr | None, HUB_TOKEN] = Field(
        None, description="Hugging Face read token, for a gated data set or model."
    )
    recipe: Annotated[str, RECIPE] = Field(
        "llama3-8b",
        description="Recipe, which says what is trained, and how: the name of a file in "
        "`workloads/maxtext/maxtext_driver/recipes`, without `.yaml`, or the path of a file of your own, "
        "such as `./mine.yaml`.",
        validate_default=True,
    )
    # The tutorial's slice.
    topology: _Topology = Field(
        _Topology("4x4"),
        validate_default=True,
        description="Shape of the TPU slice, which decides how many machines it has and of which type.",
    )
    zone: Annotated[str, Hint(values="a zone such as us-east5-b (not a region)")] = Field(
        default_factory=lambda data: _zones(kind_of(data)).get(data["region"], ("",))[0],
        validate_default=True,
        pattern=r"^([a-z]+(-[a-z]+)+[0-9]+-[a-z0-9]+)?$",
        description="Zone of the slice and of the cluster. By default the region's first zone with TPU v6e.",
    )
    dataset: Annotated[
        str | None,
        Hint(
            values="Parquet files such as hf://datasets/ORGANIZATION/NAME/*.parquet, or of the stack's "
            f"bucket {BUCKET_MOUNT}/FOLDER/*.parquet"
        ),
    ] = Field(
        None,
        pattern=rf"^(hf://datasets/[\w.-]+/[\w.-]+(@[\w.-]+)?|{BUCKET_MOUNT})(/[\w.*-]+)*/[\w.*-]+\.parquet$",
        description="Parquet files with a column `text` that replace the recipe's data. They are on the "
        "Hugging Face Hub (NAME@REVISION, or the newest when the run begins) or in the stack's bucket.",
    )

    @property
    def slice(self) -> Slice:
        """The TPU slice, in the catalogue."""
        return TPU_SLICES[self.topology]

    @property
    def trained_recipe(self) -> Any:
        """The recipe with the values of this stack in place, its data set among them."""
        if not self.dataset:
            return super().trained_recipe
        data = {
            # With Grain a resumed run continues with the next row.
            "dataset_type": "grain",
            "grain_file_type": "parquet",
            "grain_train_files": self.dataset,
            # Llama 3's tokenizer from MaxText's package: Meta's repository on the Hub is gated.
            "tokenizer_type": "tiktoken",
            "tokenizer_path": "tokenizer_llama3.tiktoken",
        }
        return self.recipe_with(self.recipe, {**data, **self.recipe_set})

    @field_validator("topology")
    @classmethod
    def _fits_the_recipe(cls, topology: str, info: ValidationInfo) -> str:
        """Rejects a slice whose number of chips does not fit the recipe's parallelism.

        In MaxText the product of all parallelism sizes is the number of chips, and a size of -1 takes the
        rest. `ici_fsdp_parallelism` is -1 unless the recipe sets it.
        """
        if "recipe" not in info.data:
            return topology
        recipe = info.data["recipe"]
        settings = cls.recipe_with(recipe, info.data.get("recipe_set", {})).maxtext
        maxtext = {"ici_fsdp_parallelism": -1, **settings}
        sizes = [size for name, size in maxtext.items() if name.startswith("ici_") and isinstance(size, int)]
        fixed, chips = prod(size for size in sizes if size > 0), TPU_SLICES[topology].chips
        if chips % fixed or (chips != fixed and -1 not in sizes):
            shapes = [shape.topology for shape in TPU_SLICES.values() if shape.chips == fixed]
            remedy = "choose another recipe"
            if shapes:
                remedy = f"set topology to {shapes[0]} or {remedy}"
            raise ValueError(
                f"a {topology} slice has {chips} chips, and the recipe {recipe} divides the model over "
                f"{fixed}; {remedy}"
            )
        return topology

    @field_validator("zone")
    @classmethod
    def _has_v6e(cls, zone: str, info: ValidationInfo) -> str:
        """Rejects a zone in which no slice would ever start. A reservation may be in any zone."""
        if not {"region", "capacity_types"} <= info.data.keys():
            return zone
        region, capacity = info.data["region"], kind_of(info.data)
        offered = _zones(capacity)
        remedy = f"it is in {', '.join(chain.from_iterable(offered.values()))}"
        problem = "has no TPU v6e"
        if capacity is CapacityType.FLEX_START:
            problem += " with flex-start"
        if not zone and region not in offered:
            if capacity is CapacityType.RESERVATION:
                remedy = f"set the zone of the reservation with `pulumi config set zone ZONE`; {remedy}"
            raise ValueError(f"{region} {problem}; {remedy}")
        if zone.rpartition("-")[0] != region:
            raise ValueError(f"{zone or 'an empty text'} is not a zone of {region}, the stack's gcp:region")
        if capacity is not CapacityType.RESERVATION and zone not in offered.get(region, ()):
            raise ValueError(f"{zone} {problem}; {remedy}")
        return zone


def _zones(capacity: CapacityType | None) -> Mapping[str, tuple[str, ...]]:
    return V6E.flex_start_zones if capacity is CapacityType.FLEX_START else V6E.zones


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands in the order in which an operator needs them."""
    tpu_slice = settings.slice
    site = Site(settings)
    platform = training_platform(
        site,
        settings,
        namespace="ray",
        ray_operator=True,
        nodes=StandardNodes.with_tpu_slice(settings.zone),
    )
    nodes = [_head_pool(site, settings, platform).ready, _slice_pool(site, settings, platform).ready]
    ray = RayClusterArgs(
        namespace=platform.namespace,
        ray_version=pins.RAY_VERSION,
        image=platform.image,
        service_account=platform.account.account_name,
        workers=_workers(settings),
        tokens=platform.tokens,
        bucket=platform.bucket.name_in_command,
        depends_on=[*platform.depends_on, *nodes],
    )
    run = run_name(settings, platform.code, platform.image, tpu_slice.topology)
    folder = platform.bucket.prefix.rstrip("/")
    output = f"{BUCKET_MOUNT} --folder {folder}" if folder else BUCKET_MOUNT
    job = RayJob(
        site.name,
        RayJobArgs(
            job_name=settings.recipe_name,
            entrypoint=" ".join(
                [
                    f"python -m maxtext_driver --recipe {settings.recipe_name} --output {output}",
                    f"--run {run} --workers {tpu_slice.hosts} --topology {tpu_slice.topology}",
                    "--accelerator TPU-V6E",
                    *settings.run_arguments,
                ]
            ),
            code=platform.code,
            cluster=ray,
            wait=settings.wait_for_training,
            deadline_hours=settings.capacity.deadline_hours(settings.max_run_hours),
        ),
    )
    # Only a run that started from published weights has the tokenizer that an export needs.
    is_exported = bool(settings.trained_recipe.weights)
    serve = {"serveRun": command_to_serve(settings, platform.bucket, run)} if is_exported else {}
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(
            site, settings, platform, [*TPUS, "training", "tokens-per-chip", "ray"], trainers=RAY_WORKERS
        ),
        **job.commands(),
        **platform.bucket.commands(run, "checkpoints"),
        **serve,
        "result": job.result,
    }


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
        annotations=settings.capacity.pod_annotations(),
        size={
            "cpu": str(tpu_slice.machine.pod_cpus),
            "memory": f"{tpu_slice.machine.pod_memory_gib}Gi",
            "ephemeral-storage": "50Gi",
            tpu_slice.machine.resource: str(tpu_slice.machine.count),
        },
        node_selector=tpu_slice.node_labels,
        shared_memory="32Gi",
        scratch="40Gi",
    )


def _head_pool(site: Site, settings: Settings, platform: TrainingPlatform) -> NodePool:
    return NodePool(
        f"{site.name}-head",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=_HEAD_MACHINE,
            zones=[settings.zone],
            minimum=1,
            maximum=1,
            disk_gb=_HEAD_DISK_GB,
        ),
    )


def _slice_pool(site: Site, settings: Settings, platform: TrainingPlatform) -> NodePool:
    tpu_slice = settings.slice
    return NodePool(
        f"{site.name}-slice",
        NodePoolArgs(
            cluster=platform.cluster,
            machine=tpu_slice.machine,
            zones=[settings.zone],
            # All hosts or none. Flex-start creates machines only when pods request them.
            minimum=0 if settings.capacity.flex_start else tpu_slice.hosts,
            maximum=tpu_slice.hosts,
            disk_gb=_SLICE_DISK_GB,
            tpu_topology=tpu_slice.topology,
            capacity=settings.capacity,
            run_hours=settings.max_run_hours,
        ),
    )
