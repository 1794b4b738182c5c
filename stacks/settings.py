"""What a stack file may log: the only reader of the configuration.

`load` reads the keys of the stack's scenario into a frozen dataclass, or reports every problem at
once before any resource is registered.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi
from pulumi.runtime import config as runtime_config

from components.capacity import FLEX_START_MAX_HOURS, Capacity, CapacityType, Reservation
from components.image import Image
from components.members import parse_members
from stacks.keys import Keys, SettingsError
from stacks.l4_machines import L4Machines, read_l4_machines
from stacks.maxtext_data import read_data
from stacks.tpu_machines import TpuMachines, check_fit, read_tpu_machines
from workloads.finetune import errors as gemma_errors
from workloads.finetune import recipe as gemma_recipe
from workloads.maxtext.maxtext_driver import errors as maxtext_errors
from workloads.maxtext.maxtext_driver import recipe as maxtext_recipe

__all__ = [
    "A4Accelerate",
    "A4Ray",
    "CloudrunVllm",
    "L4Kueue",
    "Settings",
    "SettingsError",
    "TpuMaxtext",
    "load",
]

RAY_CLUSTERS: Final = ("perJob", "shared")
CLUSTER_MODES: Final = ("standard", "autopilot")
PRIORITIES: Final = ("high", "low")
# What flex-start allows; a longer run wants a look at it before it goes on.
MAX_RUN_HOURS: Final = FLEX_START_MAX_HOURS


@dataclass(frozen=True, kw_only=True)
class _Recipes:
    """The recipes of a scenario.

    Args:
        default: Name of the one that is trained by default.
        folder: Where they are, for a message.
        load: Reads the one of a name.
        refused: What `load` raises, with what is wrong and what to do.
        gated: Whether they start from weights that need a Hugging Face token.
    """

    default: str
    folder: str
    load: Callable[[str], object]
    refused: type[Exception]
    gated: bool


def _gemma(default: str) -> _Recipes:
    return _Recipes(
        default=default,
        folder="workloads/finetune/recipes",
        load=gemma_recipe.load_recipe,
        refused=gemma_errors.InputError,
        gated=True,
    )


_MAXTEXT: Final = _Recipes(
    default="llama3-8b",
    folder="workloads/maxtext/maxtext_driver/recipes",
    load=maxtext_recipe.load_recipe,
    refused=maxtext_errors.InputError,
    gated=False,
)


@dataclass(frozen=True, kw_only=True)
class Training:
    """Settings of every scenario that trains.

    Args:
        stack: Name of the stack, as a label of what it creates.
        project: `gcp:project`. Project id that everything is created in.
        region: `gcp:region`. Region of the machines and the bucket; their capacity must be in it.
        hf_token: `hfToken`. Hugging Face read token of an account that accepted the model's licence; None
            where nothing needs one.
        image: `imageUri`. Image of the workload's Dockerfile, by digest; by default the stack builds it.
        scan_images: `scanImages`. Whether Artifact Registry scans the image that is built; it bills scans.
        recipe: `recipe`. Name of a file in the recipes of the workload.
        force_destroy: `forceDestroy`. Whether destroy may delete the bucket with its checkpoints.
        bucket_name: `bucketName`. Name of the bucket; by default made unique by Pulumi.
        max_run_hours: `maxRunHours`. Hours after which a run is ended and accelerator nodes are taken away;
            None for no limit.
    """

    stack: str
    project: str
    region: str
    hf_token: pulumi.Output[str] | None
    image: Image | None
    scan_images: bool
    recipe: str
    force_destroy: bool
    bucket_name: str | None
    max_run_hours: int | None


@dataclass(frozen=True, kw_only=True)
class GkeTraining(Training):
    """Settings of every scenario that trains on GKE, besides those of `Training`.

    Args:
        capacity: `capacity.type`. Where the accelerator nodes come from.
            `capacity.reservation`. Name of the reservation, or its path if another project shares it;
            with type `reservation` only, and then required.
        cluster_name: `clusterName`. Name of the GKE cluster; by default made unique by Pulumi.
    """

    capacity: Capacity
    cluster_name: str | None


@dataclass(frozen=True, kw_only=True)
class AwaitableTraining(GkeTraining):
    """Settings of every scenario whose training has a cluster to itself, besides those of `GkeTraining`.

    Args:
        wait_for_training: `waitForTraining`. Whether `pulumi up` ends only when the training does.
    """

    wait_for_training: bool


@dataclass(frozen=True, kw_only=True)
class A4Ray(AwaitableTraining):
    """Settings of the scenario `a4-ray`, besides those of `AwaitableTraining`.

    Args:
        workers: `workers`. A4 nodes with 8 B200 GPUs each.
        shared_ray_cluster: `rayCluster`. Whether the Ray cluster outlives the job (`shared`) or goes with it.
    """

    workers: int
    shared_ray_cluster: bool


@dataclass(frozen=True, kw_only=True)
class A4Accelerate(AwaitableTraining):
    """Settings of the scenario `a4-accelerate`: those of `AwaitableTraining`."""


@dataclass(frozen=True, kw_only=True)
class CloudrunVllm(Training):
    """Settings of the scenario `cloudrun-vllm`, besides those of `Training`.

    Args:
        hf_token: As there, and required.
        subnet: `subnet`. Name of a subnet of the project and region that has a way out to the
            internet; by default the stack makes a network of its own.
        invokers: `invokers`. IAM members who may call the service.
        min_instances: `minInstances`. Instances that are kept without requests.
        max_instances: `maxInstances`. Instances at most.
    """

    hf_token: pulumi.Output[str]
    subnet: str | None
    invokers: tuple[str, ...]
    min_instances: int
    max_instances: int


@dataclass(frozen=True, kw_only=True)
class L4Kueue(GkeTraining):
    """Settings of the scenario `l4-kueue`, besides those of `GkeTraining`.

    Args:
        autopilot: `clusterMode`. Whether the cluster makes nodes for pods (`autopilot`) or has pools of them.
        machines: `machineType`, `zones`, `nodes`, `minNodes`. What serving and fine-tune run on.
        serving_model: `servingModel`. Hugging Face id of the model that vLLM serves.
        serving_replicas: `servingReplicas`. Number of servers; by default whoever scales them decides.
        serving_priority: `servingPriority`. Priority of the servers in the queue; `high` pre-empts `low`.
        training_priority: `trainingPriority`. Priority of the fine-tune in the queue.
    """

    autopilot: bool
    machines: L4Machines
    serving_model: str
    serving_replicas: int | None
    serving_priority: str
    training_priority: str


@dataclass(frozen=True, kw_only=True)
class TpuMaxtext(AwaitableTraining):
    """Settings of the scenario `tpu-maxtext`, besides those of `AwaitableTraining`.

    Args:
        machines: `topology`, `zone`. The TPU slice that is trained on.
        overrides: `dataset`. Settings of MaxText, `KEY=VALUE`, in place of the recipe's.
    """

    machines: TpuMachines
    overrides: tuple[str, ...]


Settings = A4Ray | A4Accelerate | CloudrunVllm | L4Kueue | TpuMaxtext


def load() -> Settings:
    """Reads the configuration of the current stack.

    Raises:
        SettingsError: With every problem; nothing has been registered then.
    """
    config = pulumi.Config()
    # pulumi.Config reads key by key; that no other key was set can only be seen here.
    values = {**runtime_config.get_config_env(), **runtime_config.CONFIG.get()}
    keys = Keys(
        stack=pulumi.get_stack(),
        project=config.name,
        values=values,
        secrets={key for key in values if runtime_config.is_config_secret(key)},
    )
    return read(keys, config)


def read(keys: Keys, config: pulumi.Config) -> Settings:
    """Reads the keys of the scenario that `scenario` names.

    Raises:
        SettingsError: As `load`.
    """
    readers: Mapping[str, Callable[[Keys, pulumi.Config], Settings]] = {
        "a4-ray": _a4_ray,
        "a4-accelerate": _a4_accelerate,
        "cloudrun-vllm": _cloudrun_vllm,
        "l4-kueue": _l4_kueue,
        "tpu-maxtext": _tpu_maxtext,
    }
    scenario = keys.choice("scenario", readers)
    keys.check()
    settings = readers[scenario](keys, config)
    keys.finish()
    return settings


def _a4_ray(keys: Keys, config: pulumi.Config) -> A4Ray:
    return A4Ray(
        **_awaitable_training(keys, config, _gemma("gemma-3-4b-vision"), CapacityType.RESERVATION),
        workers=keys.integer("workers", 2, minimum=1, maximum=64),
        shared_ray_cluster=keys.choice("rayCluster", RAY_CLUSTERS, "perJob") == "shared",
    )


def _a4_accelerate(keys: Keys, config: pulumi.Config) -> A4Accelerate:
    return A4Accelerate(
        **_awaitable_training(keys, config, _gemma("gemma-3-12b-text-to-sql"), CapacityType.RESERVATION)
    )


def _cloudrun_vllm(keys: Keys, config: pulumi.Config) -> CloudrunVllm:
    settings = CloudrunVllm(
        **_training(keys, config, _gemma("gemma-3-1b-emoji")),
        subnet=_optional_name(keys, "subnet", maximum=63),
        invokers=keys.parsed("invokers", parse_members, (), set_as="user:SOMEBODY@EXAMPLE.COM"),
        min_instances=keys.integer("minInstances", 0, minimum=0, maximum=100),
        max_instances=keys.integer("maxInstances", 1, minimum=1, maximum=100),
    )
    if not keys.refused("minInstances", "maxInstances") and settings.min_instances > settings.max_instances:
        keys.problem(
            "minInstances",
            f"{settings.min_instances} instances are kept and maxInstances allows {settings.max_instances}; "
            "raise maxInstances or lower minInstances",
        )
    return settings


def _l4_kueue(keys: Keys, config: pulumi.Config) -> L4Kueue:
    autopilot = keys.choice("clusterMode", CLUSTER_MODES, "standard") == "autopilot"
    training = _gke_training(keys, config, _gemma("gemma-3-4b-sql"), CapacityType.ON_DEMAND)
    return L4Kueue(
        **training,
        autopilot=autopilot,
        machines=read_l4_machines(keys, training["region"], training["capacity"].type, autopilot),
        serving_model=keys.text(
            "servingModel",
            r"[A-Za-z0-9][\w.-]*/[\w.-]+",
            "a model of the Hugging Face Hub such as google/gemma-3-12b-it",
            default="google/gemma-3-12b-it",
            set_as="ORGANIZATION/MODEL",
        ),
        serving_replicas=keys.integer("servingReplicas", None, minimum=0, maximum=100),
        serving_priority=keys.choice("servingPriority", PRIORITIES, "high"),
        training_priority=keys.choice("trainingPriority", PRIORITIES, "low"),
    )


def _tpu_maxtext(keys: Keys, config: pulumi.Config) -> TpuMaxtext:
    training = _awaitable_training(keys, config, _MAXTEXT, CapacityType.ON_DEMAND)
    machines = read_tpu_machines(keys, training["region"], training["capacity"].type)
    if not keys.refused("recipe", "topology"):
        check_fit(keys, training["recipe"], machines)
    return TpuMaxtext(**training, machines=machines, overrides=read_data(keys))


def _awaitable_training(
    keys: Keys, config: pulumi.Config, recipes: _Recipes, capacity: CapacityType
) -> dict[str, Any]:
    """The fields of `AwaitableTraining`, with the scenario's own defaults."""
    return {
        **_gke_training(keys, config, recipes, capacity),
        "wait_for_training": keys.flag("waitForTraining", False),
    }


def _gke_training(
    keys: Keys, config: pulumi.Config, recipes: _Recipes, capacity: CapacityType
) -> dict[str, Any]:
    """The fields of `GkeTraining`, with the scenario's own defaults."""
    return {
        **_training(keys, config, recipes),
        "capacity": _capacity(keys, capacity),
        "cluster_name": _optional_name(keys, "clusterName", maximum=40),
    }


def _training(keys: Keys, config: pulumi.Config, recipes: _Recipes) -> dict[str, Any]:
    """The fields of `Training`, with the scenario's own recipe as the default."""
    keys.secret("hfToken", "a Hugging Face read token", required=recipes.gated)
    image = keys.parsed("imageUri", Image.parse, None, set_as="REGISTRY/IMAGE@sha256:DIGEST")
    scan_images = keys.flag("scanImages", False)
    if image and scan_images:
        keys.problem(
            "scanImages",
            "the image that is built would be scanned, and with imageUri none is; remove one of the two",
        )
    return {
        "stack": _label(pulumi.get_stack()),
        "project": _project(keys),
        "region": _region(keys),
        "hf_token": config.get_secret("hfToken"),
        "image": image,
        "scan_images": scan_images,
        "recipe": _recipe(keys, recipes),
        "force_destroy": keys.flag("forceDestroy", False),
        "bucket_name": _optional_name(keys, "bucketName", maximum=63),
        "max_run_hours": keys.integer("maxRunHours", None, minimum=1, maximum=MAX_RUN_HOURS),
    }


def _label(stack: str) -> str:
    """The stack's name in the letters that Google's labels and secret ids have in common."""
    return re.sub(r"[^a-z0-9_-]", "-", stack.lower())[:63]


def _project(keys: Keys) -> str:
    return keys.text(
        "gcp:project",
        r"[a-z][a-z0-9-]{4,28}[a-z0-9]",
        "a project id (6 to 30 lower-case letters, digits and hyphens, not the project's number)",
        set_as="MY_PROJECT",
    )


def _region(keys: Keys) -> str:
    return keys.text(
        "gcp:region",
        r"[a-z]+(-[a-z]+)+\d+",
        "a region such as us-central1 (not a zone)",
        set_as="us-central1",
    )


def _optional_name(keys: Keys, key: str, maximum: int) -> str | None:
    name = keys.text(
        key,
        rf"[a-z][a-z0-9-]{{1,{maximum - 2}}}[a-z0-9]",
        f"3 to {maximum} lower-case letters, digits and hyphens that start with a letter",
        default="",
        set_as="NAME",
    )
    return name or None


def _capacity(keys: Keys, default: CapacityType) -> Capacity:
    kind = keys.choice("capacity.type", [each.value for each in CapacityType], default.value)
    reservation = keys.parsed("capacity.reservation", Reservation.parse, None, set_as="MY_RESERVATION")
    if not keys.refused("capacity.type", "capacity.reservation"):
        try:
            return Capacity(type=CapacityType(kind), reservation=reservation)
        except ValueError as error:
            keys.problem("capacity.reservation", str(error))
    return Capacity(type=CapacityType.ON_DEMAND)


def _recipe(keys: Keys, recipes: _Recipes) -> str:
    def parse(name: str) -> str:
        if "/" in name or name.endswith(".yaml"):
            raise ValueError(f"{name!r} is a path; give the name of a file in {recipes.folder}")
        try:
            recipes.load(name)
        except recipes.refused as error:
            raise ValueError(str(error)) from None
        return name

    return keys.parsed("recipe", parse, recipes.default, set_as=recipes.default)
