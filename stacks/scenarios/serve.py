"""serve: vLLM serves a finished run of another stack on L4 GPUs. Nothing is trained."""

from typing import Annotated, Final

import pulumi
from pydantic import Field, field_validator

from cloud.machines import G2_MACHINES
from components.storage.bucket import ExistingBucket, ExistingBucketArgs
from components.workload.model_server import ModelServer, ModelServerArgs
from stacks.monitoring import GPUS, gke_monitoring
from stacks.nodes.l4 import DRIVER, L4Settings, pod_size
from stacks.nodes.placement import PlacedSettings, place
from stacks.platform import WORKLOADS, Site, gke_platform
from stacks.serving import questions, vllm
from stacks.serving.served_run import ServedRunSettings, served_run, values_of
from stacks.settings.reader import Hint
from stacks.settings.shared_settings import GkeSettings

# A pod takes its CPU, memory and disk from the machine with 12 CPUs for each L4. Its 48 GB for each are twice
# those of the GPU, because the weights go through memory.
_CPUS_PER_GPU: Final = 12


class Settings(PlacedSettings, GkeSettings, L4Settings, ServedRunSettings):
    """Settings of serve."""

    model_key, callers = "servedRun", "network policies decide who may ask"
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

    @field_validator("gpus")
    @classmethod
    def _are_those_of_a_machine(cls, gpus: int) -> int:
        counts = sorted({machine.count for machine in G2_MACHINES.values()})
        if gpus not in counts:
            raise ValueError(f"no machine has {gpus} L4; choose one of {', '.join(map(str, counts))}")
        return gpus


def build(settings: Settings) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands for the operator."""
    bucket_name, _, folder = settings.served_run.removeprefix("gs://").partition("/")
    run = served_run(settings, bucket_name, folder, gpus=settings.gpus, keep=False)
    site = Site(settings, depends_on=[run.finished])
    images = [site.reachable(settings.server_image)]
    platform = gke_platform(site, settings, namespace="llm", account=f"serving-{site.stack}", images=images)
    bucket = ExistingBucket(
        site.name,
        ExistingBucketArgs(
            project=site.project_for(ExistingBucket),
            bucket_name=bucket_name,
            folder=folder,
            writers={},
            readers={"serving": platform.account},
        ),
    )
    machine = G2_MACHINES[f"g2-standard-{_CPUS_PER_GPU * settings.gpus}"]
    placement = place(site, settings, platform, machine, {**machine.node_labels, **DRIVER})
    server = ModelServer(
        site.name,
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
                "image": settings.server_image.uri,
                **values_of(run, settings, settings.gpus),
            },
            replicas=settings.serving_replicas,
            depends_on=[
                *platform.depends_on,
                *bucket.access,
                *placement.depends_on,
            ],
        ),
    )
    return {
        "connect": platform.cluster.connect,
        **gke_monitoring(site, settings, platform, [*GPUS, "serving"], servers=server.pod_labels),
        **server.commands(),
        **questions.outputs_of_run(run.finished),
    }
