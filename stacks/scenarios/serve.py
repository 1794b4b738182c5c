"""serve: vLLM serves a finished run of another stack on L4 GPUs or TPU chips. Nothing is trained."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import pulumi
from pydantic import Field

from cloud.accelerators import V5E, Accelerator, Tpu
from cloud.machines import G2_MACHINES, L4, Machine
from components.cluster.capacity import CapacityType
from components.image.image import Image
from components.storage.bucket import ExistingBucket, ExistingBucketArgs
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, TPUS, gke_monitoring
from stacks.nodes.job_nodes import JobNodes
from stacks.nodes.l4 import DRIVER, pod_size, require_l4
from stacks.platform import WORKLOADS, GkePlatform, StackContext, gke_platform
from stacks.serving import questions, tpu, vllm
from stacks.serving.served_run import declare_served_runs, served_name, values_of
from stacks.settings import CapacityList, Cluster, ConfigModel, Hint, Project, rule

# A pod takes its CPU, memory and disk from the machine with 12 CPUs for each L4. Its 48 GB for each are twice
# those of the GPU, because the weights go through memory.
_CPUS_PER_GPU: Final = 12

# Address of a run's folder.
_RUN: Final = r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9][\w.-]*)+$"
# Adapters beside the first. A place for an adapter of rank 64 takes 0.2 GB beside a model of 4B.
_MOST_RUNS: Final = 7

_MachineName = StrEnum("_MachineName", {name: name for name in tpu.SERVERS})


class Settings(ConfigModel):
    """Settings of serve."""

    project: Project
    served_run: Annotated[
        str, Hint(values="gs://BUCKET/FOLDER", fake="gs://rehearsal-runs/gemma-3-4b-sql-0a1b2c3d")
    ] = Field(
        pattern=_RUN,
        examples=["gs://BUCKET/RUN"],
        description="Folder of the finished run that is served. The output `serveRun` of the stack that "
        "trained it sets this value.",
    )
    more_runs: Annotated[
        tuple[Annotated[str, Field(pattern=_RUN)], ...],
        Hint(values='a list of at most 7 folders such as ["gs://BUCKET/OTHER_RUN"]'),
    ] = Field(
        (),
        max_length=_MOST_RUNS,
        description="More finished runs whose adapters the same servers have, each under its own name. They "
        "are in the bucket of `servedRun`, and trained on the same base model.",
    )
    machine: Annotated[
        _MachineName | None,
        Hint(values=f"one of {', '.join(tpu.SERVERS)}", default="a machine with L4"),
    ] = Field(
        None,
        description="Machine with TPU chips for each server. By default each server has the L4 of `gpus`.",
    )
    gpus: Annotated[int, Hint(values="1, 2, 4 or 8")] = Field(
        1, ge=1, le=8, description="Number of L4 of a server. vLLM spreads the model over them."
    )
    serving_replicas: int = Field(
        1, ge=0, le=100, description="Number of servers. With 0 the machines go, and the model stays."
    )
    serving: vllm.Vllm
    capacity: CapacityList
    cluster: Cluster

    @property
    def tpu_machine(self) -> Machine | None:
        """The machine with TPU chips. None for L4."""
        return tpu.SERVERS[self.machine] if self.machine else None

    @property
    def on_tpu(self) -> bool:
        """Whether a server has TPU chips."""
        return self.machine is not None

    @property
    def server_image(self) -> Image:
        """The image of the servers."""
        release = tpu.server_image(self.project) if self.on_tpu else None
        return self.serving.server_image(self.project, release)

    @property
    def server_machine(self) -> Machine:
        """The machine from which a server takes its accelerators and its size."""
        return self.tpu_machine or G2_MACHINES[f"g2-standard-{_CPUS_PER_GPU * self.gpus}"]

    @property
    def accelerators(self) -> tuple[Accelerator, int]:
        """The accelerators of a server, and their number."""
        machine = self.tpu_machine
        return (machine.model, machine.count) if machine and machine.model else (L4, self.gpus)

    @rule("gcp:region")
    def _region_has_the_accelerators(self) -> None:
        model, _ = self.accelerators
        if not isinstance(model, Tpu):
            require_l4(self.project.region)
        elif self.capacity.capacity_types != (CapacityType.RESERVATION,):
            flex_start = CapacityType.FLEX_START in self.capacity.capacity_types
            zones = model.flex_start_zones if flex_start else model.zones
            if self.project.region not in zones:
                how = " with flex-start" if flex_start else ""
                raise ValueError(
                    f"{self.project.region} has no zone with TPU {model.version}{how}; these have: "
                    f"{', '.join(zones)}"
                )

    @rule("capacity.type")
    def _chips_come_from_one_capacity(self) -> None:
        if self.tpu_machine and len(self.capacity.capacity_types) > 1:
            raise ValueError(
                f"a server on {self.machine} takes one kind; name one of "
                f"{', '.join(self.capacity.capacity_types)}"
            )

    @rule("gpus")
    def _gpus_are_those_of_a_machine(self) -> None:
        if self.tpu_machine and self.gpus != 1:
            raise ValueError(f"a server on {self.machine} has no L4; remove gpus, or remove machine")
        counts = sorted({machine.count for machine in G2_MACHINES.values()})
        if self.gpus not in counts:
            raise ValueError(f"no machine has {self.gpus} L4; choose one of {', '.join(map(str, counts))}")

    @rule("moreRuns")
    def _runs_share_a_bucket_and_no_name(self) -> None:
        bucket = self.served_run.split("/")[2]
        for run in self.more_runs:
            if run.split("/")[2] != bucket:
                raise ValueError(f"{run} is not in the bucket of servedRun, gs://{bucket}; copy it there")
        folders = [_folder(run) for run in (self.served_run, *self.more_runs)]
        for folder in folders:
            name = served_name(folder)
            if [served_name(other) for other in folders].count(name) > 1:
                raise ValueError(
                    f"two runs would answer to the name {name}, which is that of a run without its digest; "
                    "remove one"
                )

    @rule("capacity.minutes", when_set=True)
    def _minutes_have_an_effect(self) -> None:
        # The pod of a server needs no other node, so GKE goes on at once where it has no machine.
        if CapacityType.FLEX_START not in self.capacity.capacity_types:
            raise ValueError("does nothing here without flexStart in capacity.type; remove it")

    @rule("vllmArguments")
    def _arguments_are_the_users_to_set(self) -> None:
        self.serving.require_users_arguments(
            model_key="servedRun", callers="network policies decide who may ask"
        )


def _folder(address: str) -> str:
    """The folder of a run in its bucket."""
    return address.removeprefix("gs://").partition("/")[2]


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    bucket_name, folder = settings.served_run.split("/")[2], _folder(settings.served_run)
    more_folders = [_folder(run) for run in settings.more_runs]
    model, count = settings.accelerators
    if model is V5E:
        pulumi.log.warn(
            "machine: vLLM tests its releases on v6e, and not on v5e; look at the first answers of the server"
        )
    runs = declare_served_runs(
        settings.project, settings.serving, bucket_name, [folder, *more_folders], gpus=count, model=model
    )
    lookups = {name: run.lookup for name, run in runs.items()}
    stack = StackContext(settings.project, depends_on=[*lookups.values()])
    platform = gke_platform(
        stack,
        settings.cluster,
        namespace="llm",
        account=f"serving-{stack.label}",
        images=[stack.reachable(settings.server_image)],
    )
    bucket = ExistingBucket(
        stack.name,
        ExistingBucketArgs(
            project=stack.project_for(ExistingBucket),
            bucket_name=bucket_name,
            folder=folder,
            writers={},
            readers={"serving": platform.account},
            # The base model of an adapter lies beside the runs.
            more_folders=[f"{folder.rpartition('/')[0]}/weights".lstrip("/"), *more_folders],
        ),
    )
    values = values_of([*runs.values()], settings.serving, count, on_tpu=settings.on_tpu)
    access = [*bucket.access]
    if settings.on_tpu:
        access += _keep_programs(stack, platform, bucket_name, tpu.cache_folder(folder), values)
    server = _server(stack, settings, platform, values, access)
    charts = TPUS if settings.on_tpu else GPUS
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(stack, platform, [*charts, "serving"], servers=server.pod_labels),
        **server.commands(),
        **questions.outputs_of_runs(lookups),
    }


def _keep_programs(
    stack: StackContext, platform: GkePlatform, bucket: str, folder: str, values: dict[str, Any]
) -> Sequence[pulumi.Resource]:
    """Lets servers keep their compiled programs in a folder of the bucket, by more values of their manifest.

    Returns:
        What the servers wait for.
    """
    for hole, items in tpu.mounted_cache(bucket, folder).items():
        values[hole] = [*values[hole], *items]
    programs = ExistingBucket(
        f"{stack.name}-compiled",
        ExistingBucketArgs(
            project=stack.project_for(ExistingBucket),
            bucket_name=bucket,
            folder=folder,
            writers={"serving": platform.account},
        ),
    )
    return programs.access


def _server(
    stack: StackContext,
    settings: Settings,
    platform: GkePlatform,
    values: dict[str, Any],
    access: Sequence[pulumi.Resource],
) -> ModelServer:
    machine, (_, count) = settings.server_machine, settings.accelerators
    labels = tpu.labels(machine) if settings.on_tpu else {**machine.node_labels, **DRIVER}
    nodes = JobNodes(chain=settings.capacity.chain, machine=machine, labels=labels)
    placement = nodes.place(stack, platform)
    return ModelServer(
        stack.name,
        ModelServerArgs(
            namespace=platform.namespace,
            server_name="serving",
            manifest=WORKLOADS / "vllm/serving.yaml",
            values={
                "queueLabels": {},
                "rollout": vllm.NO_GAP,
                "serviceAccount": platform.account.account_name,
                "nodeSelector": placement.selector,
                "size": pod_size(machine, count),
                "image": settings.server_image.uri,
                **values,
            },
            replicas=settings.serving_replicas,
            patch=placement.patch.with_patch(tpu.METRICS) if settings.on_tpu else placement.patch,
            depends_on=[*platform.depends_on, *access, *placement.depends_on],
        ),
    )
