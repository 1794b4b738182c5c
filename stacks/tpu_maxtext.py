"""tpu-maxtext: Llama 3 8B with MaxText on a slice of TPU v6e, with Ray on GKE Standard."""

import shlex
from typing import Final

import pulumi

from components.fingerprint import fingerprint
from components.node_pool import NodePool, NodePoolArgs
from components.ray_cluster import RayClusterArgs
from components.ray_job import RayJob, RayJobArgs
from stacks import pins
from stacks.gke_training import (
    INGRESS_FROM_INSIDE,
    INGRESS_FROM_RAY_PLATFORM,
    WORKLOADS,
    Ground,
    Workload,
    lay_ground,
)
from stacks.maxtext_data import BUCKET_MOUNT
from stacks.settings import TpuMaxtext

NAME: Final = "tpu-maxtext"
MANIFESTS: Final = WORKLOADS / NAME
MAXTEXT: Final = WORKLOADS / "maxtext"

# The Ray head asks for 8 CPUs and 32 GiB, and no other pool has a machine of that size for it.
_HEAD_MACHINE: Final = "e2-standard-16"
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
        network_policies=[INGRESS_FROM_INSIDE, INGRESS_FROM_RAY_PLATFORM],
        ray_operator=True,
        zones=[settings.machines.zone],
        workload=Workload(folder=MAXTEXT, package=MAXTEXT / "maxtext_driver", mounts_bucket=True, tpu=True),
    )
    nodes = [_head_pool(settings, ground).ready, _slice_pool(settings, ground).ready]
    ray = RayClusterArgs(
        namespace=ground.namespace,
        manifest=MANIFESTS / "ray-cluster.yaml",
        values={
            "rayVersion": pins.RAY_VERSION,
            "serviceAccount": ground.account.account_name,
            "withoutToken": settings.hf_token is None,
            "bucket": ground.bucket.bucket_name,
            "mount": BUCKET_MOUNT,
            "slice": tpu_slice.node_labels,
            "hosts": tpu_slice.hosts,
            "chips": str(tpu_slice.machine.chips),
            "cpus": str(tpu_slice.machine.pod_cpus),
            "memory": f"{tpu_slice.machine.pod_memory_gib}Gi",
        },
        image=ground.image,
        depends_on=[*ground.depends_on, *nodes],
    )
    # The same code on the same libraries, data and chips is the same run, and resumes.
    content = fingerprint(
        ground.code.digest, ground.image.fingerprint, tpu_slice.topology, settings.overrides
    )
    run = f"{settings.recipe}-{content}"
    job = RayJob(
        NAME,
        RayJobArgs(
            job_name=settings.recipe,
            manifest=MANIFESTS / "ray-job.yaml",
            values={
                "recipe": settings.recipe,
                "mount": BUCKET_MOUNT,
                "run": run,
                "hosts": tpu_slice.hosts,
                "topology": tpu_slice.topology,
                "overrides": "".join(f" --set {shlex.quote(override)}" for override in settings.overrides),
                "image": ground.image.uri,
                "code": ground.code.volume,
            },
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
            machine_type=_HEAD_MACHINE,
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
            machine_type=tpu_slice.machine.name,
            zones=[settings.machines.zone],
            # Flex-start makes machines when pods ask for them, and for no other reason.
            minimum=0 if capacity.flex_start else tpu_slice.hosts,
            maximum=tpu_slice.hosts,
            disk_gb=_SLICE_DISK_GB,
            tpu_slice=tpu_slice,
            capacity=capacity,
        ),
    )
