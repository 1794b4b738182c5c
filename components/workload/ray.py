"""A Ray cluster on Kubernetes and a job on it, run by the KubeRay operator."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi

from components.base.component import Args, Component
from components.base.fingerprint import PartlyKnown, hashed_name
from components.base.manifest import MANIFESTS, Manifest, Values
from components.base.pod_patch import PodPatch
from components.cluster.capacity import NOT_EVICTED
from components.cluster.namespace import Namespace
from components.image.image import Image
from components.storage.training_code import TrainingCode
from components.workload.job import Job, JobArgs

# Labels of the pods that train.
RAY_WORKERS: Final[Mapping[str, str]] = {"ray.io/node-type": "worker"}
# Lets GKE's Ray operator and Managed Prometheus reach a Ray cluster from outside its namespace.
INGRESS_FROM_PLATFORM: Final = MANIFESTS / "ingress-from-platform.yaml"
# KubeRay accepts 53 characters. The workers of a TPU slice find each other by the Service CLUSTER-headless.
# GKE's webhook cuts its name to 50 characters, but KubeRay does not:
# https://github.com/ai-on-gke/kuberay-tpu-webhook
_MAX_NAME: Final = 50 - len("-headless")
# KubeRay names a job's own cluster after the job, with a dash and five letters.
_MAX_JOB_NAME: Final = _MAX_NAME - 6

# The path where pods see a mounted bucket.
BUCKET_MOUNT: Final = "/data"
# Limits of the GCS FUSE sidecar that GKE adds to a pod. Its requests are equal to the limits.
_HEAD_SIDECAR: Final = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "5Gi"}
# All workers write their parts of a checkpoint at the same time, as streams of large files.
_WORKER_SIDECAR: Final = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi"}
# The pods' user owns the files. Metadata is not cached: each worker sees at once what another worker has
# written, which checkpoints of several workers need.
_MOUNT_OPTIONS: Final = (
    "uid=1000,gid=1000,file-mode=664,dir-mode=775,"
    "metadata-cache:ttl-secs:0,metadata-cache:negative-ttl-secs:0"
)
# A job that failed, or that the operator rejects, has ended too. `RayJob.result` tells them apart.
_ENDED: Final = "jsonpath={.status[?@ == 'Complete' || @ == 'Failed' || @ == 'ValidationFailed']}"
# New clusters for a job that lost its own, before the job counts as failed. Each attempt resumes the run.
_RETRIES: Final = 2
# Long enough for the log collector to ship the last lines before the pods are deleted.
_SECONDS_UNTIL_SHUTDOWN: Final = 60


@dataclass(frozen=True, kw_only=True)
class RayWorkers:
    """The workers of a Ray cluster, one pod each.

    Args:
        group: Name of the worker group.
        replicas: Number of workers, or of TPU slices.
        slice_hosts: Pods per replica: the hosts of a TPU slice, which start and end together.
        annotations: Annotations that keep a worker on its node.
        size: Requests and limits of a worker, by Kubernetes resource.
        node_selector: Labels of the nodes that the workers run on.
        shared_memory: Size of /dev/shm, as a Kubernetes quantity.
        scratch: Size of /tmp, as a Kubernetes quantity.
        patch: Additions to a worker.
    """

    group: str
    replicas: int
    slice_hosts: int = 1
    annotations: Mapping[str, str]
    size: Mapping[str, str]
    node_selector: Mapping[str, str]
    shared_memory: str
    scratch: str
    patch: PodPatch = field(default_factory=PodPatch)


class RayClusterArgs(Args):
    """Arguments of `RayCluster`, or of the cluster that a `RayJob` starts for itself.

    Args:
        service_account: Kubernetes service account of the pods.
        variables: Environment variables of the containers.
        bucket: Name of a bucket that all pods see as the folder `BUCKET_MOUNT`.
        depends_on: Resources that the pods need and that the manifest refers to by name only: secrets,
            accounts, the NAT.
    """

    namespace: Namespace
    ray_version: str
    image: Image
    service_account: str
    workers: RayWorkers
    variables: Sequence[Mapping[str, Any]]
    bucket: str | PartlyKnown | None = None
    depends_on: Sequence[pulumi.Resource]

    def filled(self, name: str) -> Manifest:
        """The filled manifest of a cluster called `name`."""
        workers = self.workers
        head_annotations, worker_annotations = {**NOT_EVICTED}, {**workers.annotations}
        mounts, volumes = [], []
        if self.bucket is not None:
            head_annotations |= _sidecar(_HEAD_SIDECAR)
            worker_annotations |= _sidecar(_WORKER_SIDECAR)
            mounts = [{"name": "bucket", "mountPath": BUCKET_MOUNT}]
            volumes = [_volume(self.bucket)]
        manifest = Manifest(
            MANIFESTS / "ray-cluster.yaml",
            {
                "name": name,
                "namespace": self.namespace.namespace,
                "rayVersion": self.ray_version,
                "serviceAccount": self.service_account,
                "image": self.image.uri,
                "variables": list(self.variables),
                "headAnnotations": head_annotations,
                "workers": workers.group,
                "replicas": workers.replicas,
                "hosts": workers.slice_hosts,
                "workerAnnotations": worker_annotations,
                "workerNodes": dict(workers.node_selector),
                "workerSize": dict(workers.size),
                "workerSharedMemory": workers.shared_memory,
                "workerScratch": workers.scratch,
                "bucketMounts": mounts,
                "bucketVolumes": volumes,
            },
        )
        spec = manifest.tree["spec"]
        (group,) = spec["workerGroupSpecs"]
        workers.patch.add_to(group["template"])
        # All pods of a cluster have the same variables.
        workers.patch.add_variables_to(spec["headGroupSpec"]["template"])
        return manifest


class RayCluster(Component[RayClusterArgs]):
    """A long-lived Ray cluster. The operator does not roll pods, so another spec is another cluster.

    Attributes:
        access: The object, for which a job on the cluster must wait.
    """

    def _declare(self, name: str, args: RayClusterArgs) -> None:
        self.cluster_name = hashed_name(name, _MAX_NAME, args.image.fingerprint, args.filled(name).tree)
        self.image = args.image
        self.namespace = args.namespace
        self.access: pulumi.Resource = args.filled(self.cluster_name).create(
            f"{name}-ray-cluster", args.namespace.running_in(self, args.depends_on)
        )


def _sidecar(limits: Mapping[str, str]) -> dict[str, str]:
    """Annotations that make GKE add the sidecar to a pod."""
    sizes = {f"gke-gcsfuse/{resource}-limit": limit for resource, limit in limits.items()}
    return {"gke-gcsfuse/volumes": "true", **sizes}


def _volume(bucket: str | PartlyKnown) -> dict[str, Any]:
    attributes = {"bucketName": bucket, "mountOptions": _MOUNT_OPTIONS}
    return {"name": "bucket", "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": attributes}}


class RayJobArgs(JobArgs):
    """Arguments of `RayJob`, besides those of every `Run`.

    Args:
        entrypoint: The command that the job runs.
        code: The job's working directory.
        cluster: Arguments of the job's own cluster, which ends with the job, or a shared cluster.
        queue_labels: Labels with which the job waits in a queue of Kueue.
    """

    entrypoint: str | PartlyKnown
    code: TrainingCode
    cluster: RayClusterArgs | RayCluster
    queue_labels: Mapping[str, str] | None = None


class RayJob(Job[RayJobArgs]):
    """A RayJob, in the namespace and with the image of its cluster.

    Attributes:
        result: `Complete` once the job has succeeded. Empty without `wait`.
    """

    _longest_name = _MAX_JOB_NAME

    def _declare(self, name: str, args: RayJobArgs) -> None:
        cluster, namespace = args.cluster, args.cluster.namespace
        dependencies = cluster.depends_on if isinstance(cluster, RayClusterArgs) else [cluster.access]
        values = {
            "entrypoint": args.entrypoint,
            "image": cluster.image.uri,
            "code": args.code.volume,
            "cluster": _cluster_fields(cluster),
            "queueLabels": {"labels": dict(args.queue_labels)} if args.queue_labels else {},
        }

        def fill(more: Values) -> Manifest:
            return Manifest(MANIFESTS / "ray-job.yaml", {**values, **more})

        options = namespace.running_in(self, [args.code.access, *dependencies])
        waits = {"annotations": {"pulumi.com/waitFor": _ENDED}} if args.wait else {}
        job = self._start(f"{name}-ray-job", args, namespace, fill, waits, options)
        self.result: pulumi.Output[str] = pulumi.Output.from_input("")
        if args.wait:
            self.result = pulumi.Output.all(job.status).apply(
                lambda status: _result(self.job_name, status[0])
            )

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job, the training's log and Ray's dashboard, keyed by output name."""
        cluster = f"{self._kubectl} get rayjob {self.job_name} --output jsonpath={{.status.rayClusterName}}"
        return {
            "watchJob": f"{self._kubectl} get rayjob {self.job_name} --watch",
            "watchTraining": f"{self._kubectl} logs --follow job/{self.job_name}",
            "openDashboard": f"{self._kubectl} port-forward service/$({cluster})-head-svc 8265:8265",
        }


def _cluster_fields(cluster: RayClusterArgs | RayCluster) -> dict[str, Any]:
    if isinstance(cluster, RayCluster):
        # KubeRay deletes a shared cluster when it retries a job on it, so there are no retries.
        # https://github.com/ray-project/kuberay/issues/4516
        return {"clusterSelector": {"ray.io/cluster": cluster.cluster_name}, "backoffLimit": 0}
    return {
        "rayClusterSpec": cluster.filled("unused").tree["spec"],
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _SECONDS_UNTIL_SHUTDOWN,
        "backoffLimit": _RETRIES,
    }


def _result(job_name: str, status: dict[str, Any] | None) -> str:
    """The result of a job that has ended.

    Raises:
        pulumi.RunError: If the job did not succeed.
    """
    status = status or {}
    result = status.get("jobDeploymentStatus", "")
    reason = status.get("message") or status.get("reason") or "no reason given"
    if result == "ValidationFailed":
        raise pulumi.RunError(f"the Ray operator rejects RayJob {job_name}, and nothing ran: {reason}")
    if status.get("jobStatus") == "STOPPED":
        reason = "it was stopped: its input is wrong, maxRunHours is over, or somebody stopped it"
    elif result != "Failed":
        return result
    raise pulumi.RunError(
        f"the training failed: RayJob {job_name}: {reason}; the command in the stack output watchTraining "
        "shows its log; change the code, the recipe or a setting to run a new job"
    )
