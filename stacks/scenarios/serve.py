"""serve: vLLM serves a finished run of another stack on L4 GPUs. Nothing is trained."""

from typing import Annotated, Final

import pulumi
from pydantic import Field

from cloud.machines import G2_MACHINES
from components.cluster.capacity import CapacityType
from components.storage.bucket import ExistingBucket, ExistingBucketArgs
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.job_nodes import JobNodes
from stacks.nodes.l4 import DRIVER, pod_size, require_l4
from stacks.platform import WORKLOADS, StackContext, gke_platform
from stacks.serving import questions, vllm
from stacks.serving.served_run import declare_served_run, values_of
from stacks.settings import CapacityList, Cluster, ConfigModel, Hint, Project, rule

# A pod takes its CPU, memory and disk from the machine with 12 CPUs for each L4. Its 48 GB for each are twice
# those of the GPU, because the weights go through memory.
_CPUS_PER_GPU: Final = 12


class Settings(ConfigModel):
    """Settings of serve."""

    project: Project
    served_run: Annotated[
        str, Hint(values="gs://BUCKET/FOLDER", fake="gs://rehearsal-runs/gemma-3-4b-sql-0a1b2c3d")
    ] = Field(
        pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9](/[A-Za-z0-9][\w.-]*)+$",
        examples=["gs://BUCKET/RUN"],
        description="Folder of the finished run that is served. The output `serveRun` of the stack that "
        "trained it sets this value.",
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

    @rule("gcp:region")
    def _region_has_l4(self) -> None:
        require_l4(self.project.region)

    @rule("gpus")
    def _gpus_are_those_of_a_machine(self) -> None:
        counts = sorted({machine.count for machine in G2_MACHINES.values()})
        if self.gpus not in counts:
            raise ValueError(f"no machine has {self.gpus} L4; choose one of {', '.join(map(str, counts))}")

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


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    bucket_name, _, folder = settings.served_run.removeprefix("gs://").partition("/")
    run = declare_served_run(
        settings.project, settings.serving, bucket_name, folder, gpus=settings.gpus, keep=False
    )
    stack = StackContext(settings.project, depends_on=[run.lookup])
    image = settings.serving.server_image(settings.project)
    platform = gke_platform(
        stack,
        settings.cluster,
        namespace="llm",
        account=f"serving-{stack.label}",
        images=[stack.reachable(image)],
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
            more_folders=[f"{folder.rpartition('/')[0]}/weights".lstrip("/")],
        ),
    )
    machine = G2_MACHINES[f"g2-standard-{_CPUS_PER_GPU * settings.gpus}"]
    labels = {**machine.node_labels, **DRIVER}
    nodes = JobNodes(chain=settings.capacity.chain, machine=machine, labels=labels)
    placement = nodes.place(stack, platform)
    server = ModelServer(
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
                "size": pod_size(machine, settings.gpus),
                "image": image.uri,
                **values_of(run, settings.serving, settings.gpus),
            },
            replicas=settings.serving_replicas,
            patch=placement.patch,
            depends_on=[*platform.depends_on, *bucket.access, *placement.depends_on],
        ),
    )
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(stack, platform, [*GPUS, "serving"], servers=server.pod_labels),
        **server.commands(),
        **questions.outputs_of_run(run.lookup),
    }
