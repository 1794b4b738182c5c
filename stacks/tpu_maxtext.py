"""tpu-maxtext: Llama 3 8B with MaxText on a slice of TPU v6e, with Ray on GKE Standard."""

import shlex
from typing import Final

import pulumi

from cloud.machines import MACHINES
from components.fingerprint import fingerprint
from components.namespace import INGRESS_FROM_INSIDE
from components.node_pool import NodePool, NodePoolArgs
from components.ray_cluster import INGRESS_FROM_PLATFORM, BucketMount, RayClusterArgs, RayWorkers
from components.ray_job import RayJob, RayJobArgs
from stacks import pins
from stacks.gke_training import (
    WORKLOADS,
    Ground,
    Workload,
    lay_ground,
)
from stacks.maxtext_data import BUCKET_MOUNT
from stacks.settings import TpuMaxtext

NAME: Final = "tpu-maxtext"
MAXTEXT: Final = WORKLOADS / "maxtext"

# The Ray head asks for 8 CPUs and 32 GiB, and no other pool has a machine of that size for it.
_HEAD_MACHINE: Final = MACHINES["e2-standard-16"]
_HEAD_DISK_GB: Final = 100
# Images, and the scratch space of the pod that trains.
_SLICE_DISK_GB: Final = 200


def build(settings: TpuMaxtext) -> dict[str, pulumi.Input[str]]:
    """Declares the stack and returns its outputs: commands to copy, in the order an operator needs them."""
    tpu_slice = settings.machines.slice
    ground = lay_ground(
        NAME,
        settings,
        namespace="ray",
        network_policies=[INGRESS_FROM_INSIDE, INGRESS_FROM_PLATFORM],
        ray_operator=True,
        zones=[settings.machines.zone],
        workload=Workload(folder=MAXTEXT, package=MAXTEXT / "maxtext_driver", mounts_bucket=True, tpu=True),
    )
    nodes = [_head_pool(settings, ground).ready, _slice_pool(settings, ground).ready]
    ray = RayClusterArgs(
        namespace=ground.namespace,
        ray_version=pins.RAY_VERSION,
        image=ground.image,
        service_account=ground.account.account_name,
        workers=RayWorkers(
            group="tpu",
            # One slice: all of its hosts or none.
            replicas=1,
            slice_hosts=tpu_slice.hosts,
            size={
                "cpu": str(tpu_slice.machine.pod_cpus),
                "memory": f"{tpu_slice.machine.pod_memory_gib}Gi",
                "ephemeral-storage": "50Gi",
                tpu_slice.machine.resource: str(tpu_slice.machine.count),
            },
            node_selector=tpu_slice.node_labels,
            shared_memory="32Gi",
            scratch="40Gi",
        ),
        head_storage="10Gi",
        token_optional=settings.hf_token is None,
        mount=BucketMount(bucket=ground.bucket.bucket_name, path=BUCKET_MOUNT),
        depends_on=[*ground.depends_on, *nodes],
    )
    # The same code on the same libraries, data and chips is the same run, and resumes.
    content = fingerprint(
        ground.code.digest, ground.image.fingerprint, tpu_slice.topology, settings.overrides
    )
    run = f"{settings.recipe}-{content}"
    overrides = "".join(f" --set {shlex.quote(override)}" for override in settings.overrides)
    job = RayJob(
        NAME,
        RayJobArgs(
            job_name=settings.recipe,
            entrypoint=f"python -m maxtext_driver --recipe {settings.recipe} --output {BUCKET_MOUNT} "
            f"--run {run} --workers {tpu_slice.hosts} --topology {tpu_slice.topology} "
            f"--accelerator TPU-V6E{overrides}",
            image=ground.image.uri,
            code=ground.code.volume,
            cluster=ray,
            depends_on=[ground.code.access],
            wait=settings.wait_for_training,
            max_hours=settings.max_run_hours,
            alone=True,
        ),
    )
    return {
        "connect": ground.cluster.connect,
        **job.commands(),
        **ground.bucket.commands(run, result="checkpoints"),
        "result": job.result,
    }


def _head_pool(settings: TpuMaxtext, ground: Ground) -> NodePool:
    return NodePool(
        f"{NAME}-head",
        NodePoolArgs(
            cluster=ground.cluster,
            machine=_HEAD_MACHINE,
            zones=[settings.machines.zone],
            minimum=1,
            maximum=1,
            disk_gb=_HEAD_DISK_GB,
        ),
    )


def _slice_pool(settings: TpuMaxtext, ground: Ground) -> NodePool:
    tpu_slice = settings.machines.slice
    capacity = settings.capacity.node_pool_settings(settings.max_run_hours)
    return NodePool(
        f"{NAME}-slice",
        NodePoolArgs(
            cluster=ground.cluster,
            machine=tpu_slice.machine,
            zones=[settings.machines.zone],
            # Flex-start makes machines when pods ask for them, and for no other reason.
            minimum=0 if capacity.flex_start else tpu_slice.hosts,
            maximum=tpu_slice.hosts,
            disk_gb=_SLICE_DISK_GB,
            tpu_slice=tpu_slice,
            capacity=capacity,
        ),
    )
