"""The served run behind vLLM on GKE: how it is looked up, mounted and named."""

import re
from collections.abc import Mapping
from typing import Any, Final

import pulumi

from cloud.machines import L4
from components.finished_run.limits import RANKS
from components.storage.bucket import Storage
from components.storage.served_run import ServedRun, ServedRunArgs
from stacks.serving import vllm
from stacks.settings.project import Project

# The digest at the end of a run's own name, see `stacks.training.platform.run_name`.
_DIGEST: Final = re.compile(r"-[0-9a-f]{8}$")
# Values for the holes of `workloads/vllm/serving.yaml` of a server that mounts no bucket.
NOTHING_MOUNTED: Final[Mapping[str, Any]] = {"podAnnotations": {}, "mounts": [], "volumes": []}


def declare_served_run(
    project: Project,
    serving: vllm.Vllm,
    bucket: pulumi.Input[str],
    folder: str,
    *,
    gpus: int,
    keep: bool,
) -> ServedRun:
    """Declares the run that is served.

    Args:
        bucket: Name of the bucket.
        folder: The run's folder in it.
        gpus: Number of L4 that a server has.
        keep: See `FinishedRun`.
    """
    return ServedRun(
        project.scenario,
        ServedRunArgs(
            project=project.project,
            bucket=bucket,
            run=folder,
            serve_not_good=serving.serve_not_good,
            memory_gb=gpus * L4.memory_gb,
            gpus=gpus,
            max_length=vllm.GKE_LENGTH,
            users_length=serving.users_length,
            keep=keep,
        ),
    )


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


def values_of(run: ServedRun, serving: vllm.Vllm, gpus: int) -> dict[str, Any]:
    """Values for the holes of `workloads/vllm/serving.yaml` that depend on what is served.

    Args:
        gpus: Number of GPUs of a server.
    """
    lookup = run.lookup

    def command(results: list[Any]) -> list[str]:
        *model, pictures, length = results
        own = [*_arguments(*model), *vllm.contents(pictures=pictures)]
        return serving.arguments_of_vllm(*own, *vllm.gke_arguments(gpus, int(length)))

    place = (lookup.bucket, lookup.folder, lookup.kind)
    adapter = (lookup.base, lookup.base_folder, lookup.rank, lookup.template)
    arguments = pulumi.Output.all(*place, *adapter, lookup.pictures, lookup.length).apply(command)
    return {"arguments": arguments, **run.mounted_at(vllm.RUN_FOLDER)}


def _arguments(
    bucket: str, folder: str, kind: str, base: str, base_folder: str, rank: int, template: str
) -> list[str]:
    """The model of a run for `vllm serve`: its path, or the base model in the bucket with the adapter."""
    name, path = served_name(folder), f"{vllm.RUN_FOLDER}/{kind}"
    # MaxText exports float32, which vLLM then stores as bf16.
    precision = "--dtype=bfloat16"
    if not base:
        return [path, vllm.SAFETENSORS, f"--served-model-name={name}", precision]
    kernel = next((size for size in RANKS if size >= rank), rank)
    asked = [f"--chat-template={path}/{template}"] if template else []
    adapter = ["--enable-lora", f"--lora-modules={name}={path}", f"--max-lora-rank={kernel}"]
    return [*vllm.streamed(f"gs://{bucket}/{base_folder}", base), precision, *adapter, *asked]
