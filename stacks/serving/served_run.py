"""The served run behind vLLM on GKE: how it is looked up, mounted and named."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypedDict

import pulumi

from cloud.accelerators import L4, Accelerator, Tpu
from components.finished_run import FinishedRun
from components.finished_run.limits import kernel_rank
from components.storage.bucket import Storage
from components.storage.served_run import ServedRun, ServedRunArgs
from stacks.serving import tpu, vllm
from stacks.settings.project import Project

# The digest at the end of a run's own name, see `stacks.training.platform.run_name`.
_DIGEST: Final = re.compile(r"-[0-9a-f]{8}$")
# Values for the holes of `workloads/vllm/serving.yaml` of a server that mounts no bucket.
NOTHING_MOUNTED: Final[Mapping[str, Any]] = {
    "podAnnotations": {},
    "mounts": [],
    "volumes": [],
    "environment": vllm.GPU_VARIABLES,
}


def declare_served_run(
    project: Project,
    serving: vllm.Vllm,
    bucket: pulumi.Input[str],
    folder: str,
    *,
    gpus: int,
    keep: bool,
    beside: str = "",
    adapters: int = 1,
    model: Accelerator = L4,
) -> ServedRun:
    """Declares the run that is served.

    Args:
        bucket: Name of the bucket.
        folder: The run's folder in it.
        gpus: Number of accelerators that a server has.
        keep: See `FinishedRun`.
        beside: See `FinishedRun`.
        adapters: See `FinishedRun`.
        model: The accelerators.
    """
    name = f"{project.scenario}-{served_name(folder)}" if beside else project.scenario
    return ServedRun(
        name,
        ServedRunArgs(
            project=project.project,
            bucket=bucket,
            run=folder,
            beside=beside,
            adapters=adapters,
            serve_not_good=serving.serve_not_good,
            memory_gb=gpus * model.memory_gb,
            gpus=gpus,
            max_length=vllm.GKE_LENGTH,
            users_length=serving.users_length,
            keep=keep,
            chips=model.version if isinstance(model, Tpu) else "",
            # Another release has other tests.
            any_model=bool(serving.serving_image),
        ),
    )


def declare_served_runs(
    project: Project,
    serving: vllm.Vllm,
    bucket: str,
    folders: Sequence[str],
    *,
    gpus: int,
    model: Accelerator,
) -> dict[str, ServedRun]:
    """Declares runs whose adapters are on the same servers, or the only run that is served.

    Args:
        bucket: Name of the bucket.
        folders: The runs' folders in it.
        gpus: Number of accelerators that a server has.
        model: The accelerators.

    Returns:
        The runs in the same order, by the names to which their models answer.
    """
    first, *others = folders
    declare = partial(declare_served_run, gpus=gpus, keep=False, adapters=len(folders), model=model)
    runs = {served_name(first): declare(project, serving, bucket, first)}
    return runs | {
        served_name(other): declare(project, serving, bucket, other, beside=first) for other in others
    }


def command_to_serve(project: Project, bucket: Storage, run: str) -> pulumi.Output[str]:
    """A command that makes the stack `serve` and names the run to it. It has the project of this stack."""
    name = pulumi.Output.concat("pulumi config set --stack serve servedRun ", bucket.uri, "/", run)
    place = f"pulumi config set --stack serve gcp:project {project.project}"
    return pulumi.Output.concat("pulumi stack select --create serve && ", name, " && ", place)


def served_name(folder: str) -> str:
    """The name by which callers ask for the model: that of the run without its digest.

    A newer run of the same recipe has the same name, so callers need not change.
    """
    return _DIGEST.sub("", folder.rpartition("/")[2])


def values_of(
    runs: Sequence[ServedRun], serving: vllm.Vllm, gpus: int, *, on_tpu: bool = False
) -> dict[str, Any]:
    """Values for the holes of `workloads/vllm/serving.yaml` that depend on what is served.

    Args:
        runs: The run, or several runs whose adapters are on the same servers.
        gpus: Number of GPUs or TPU chips of a server.
        on_tpu: Whether they are TPU chips.
    """
    first, *others = runs
    mounted = [first.mounted_at(vllm.RUN_FOLDER)]
    for number, other in enumerate(others, 2):
        mounted.append(other.mounted_at(_path_of(number), f"run-{number}"))

    def command(models: list[Model]) -> list[str]:
        pictures = models[0]["pictures"]
        own = [*_arguments(models), *vllm.contents(pictures=pictures)]
        own += tpu.arguments(pictures=pictures) if on_tpu else []
        return serving.arguments_of_vllm(*own, *vllm.gke_arguments(gpus, int(models[0]["length"])))

    models: Any = pulumi.Output.all(*(_model(run.lookup) for run in runs))
    return {
        "arguments": models.apply(command),
        "environment": tpu.variables(first.lookup.base.apply(bool)) if on_tpu else vllm.GPU_VARIABLES,
        "podAnnotations": mounted[0]["podAnnotations"],
        "mounts": [mount for values in mounted for mount in values["mounts"]],
        "volumes": [volume for values in mounted for volume in values["volumes"]],
    }


class Model(TypedDict):
    """What a look-up has found of a run: see `FinishedRun`."""

    bucket: str
    folder: str
    kind: str
    base: str
    base_folder: str
    rank: int
    template: str
    pictures: bool
    length: int


def _model(lookup: FinishedRun) -> pulumi.Output[Any]:
    return pulumi.Output.all(**{name: getattr(lookup, name) for name in Model.__annotations__})


def _path_of(number: int) -> str:
    """The folder of a run in the containers. The first run's has no number."""
    return vllm.RUN_FOLDER if number == 1 else f"{vllm.RUN_FOLDER}-{number}"


def _arguments(models: Sequence[Model]) -> list[str]:
    """The models of runs for `vllm serve`: the path of one, or the base model in the bucket with adapters."""
    first, path = models[0], f"{vllm.RUN_FOLDER}/{models[0]['kind']}"
    # MaxText exports float32, which vLLM then stores as bf16.
    precision = "--dtype=bfloat16"
    if not first["base"]:
        name = served_name(first["folder"])
        return [path, vllm.SAFETENSORS, f"--served-model-name={name}", precision]
    adapters = [
        f"{served_name(model['folder'])}={_path_of(number)}/{model['kind']}"
        for number, model in enumerate(models, 1)
    ]
    rank = max(int(model["rank"]) for model in models)
    asked = [f"--chat-template={path}/{first['template']}"] if first["template"] else []
    base = vllm.streamed(f"gs://{first['bucket']}/{first['base_folder']}", first["base"])
    return [*base, precision, *lora_options(adapters, rank), *asked]


def lora_options(adapters: Sequence[str], rank: int) -> list[str]:
    """The options of `vllm serve` for adapters. Each has a place, so that none is read again for a request.

    Args:
        adapters: Texts NAME=PATH.
        rank: The largest rank of one.
    """
    most = f"--max-lora-rank={kernel_rank(rank)}"
    if len(adapters) == 1:
        return ["--enable-lora", f"--lora-modules={adapters[0]}", most]
    places = len(adapters)
    several = ["--lora-modules", *adapters, f"--max-loras={places}", f"--max-cpu-loras={places}"]
    return ["--enable-lora", *several, most]
