"""A job on a Ray cluster, run by the KubeRay operator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.component import Component
from components.fingerprint import hashed_name
from components.manifest import MANIFESTS, Manifest, run_limit
from components.ray_cluster import RayCluster, RayClusterArgs

_MANIFEST: Final = MANIFESTS / "ray-job.yaml"
# https://github.com/ray-project/kuberay: the operator rejects longer ones.
_MAX_NAME: Final = 47
# A job that failed has ended too; `RayJob.result` tells the two apart.
_ENDED: Final = "jsonpath={.status[?@ == 'Complete' || @ == 'Failed']}"
# Longer than any run of the shipped recipes; the provider's own limit is ten minutes.
_LONGEST_RUN: Final = pulumi.CustomTimeouts(create="24h", update="24h")
# New clusters for a job whose own was lost, before it counts as failed; each one resumes.
_RETRIES: Final = 2
# Long enough for the log collector to ship the last lines before the pods go.
_SECONDS_UNTIL_SHUTDOWN: Final = 60


@dataclass(frozen=True, kw_only=True)
class RayJobArgs:
    """Arguments of `RayJob`.

    Args:
        job_name: Start of the job's name; a digest of all it consists of follows.
        entrypoint: Command line that the cluster runs.
        image: Image of the pod that submits it.
        code: The `configMap` volume source with the job's working directory.
        cluster: A cluster of its own, shut down when the job ends, or a shared one.
        depends_on: What must exist before the job because these arguments name it.
        wait: Whether `pulumi up` waits for the end of the job and fails if the job failed.
        max_hours: Hours after which the job is ended and fails, its own cluster with it; None for no limit.
        alone: Whether there are machines for one such job only: what replaces it begins when it has gone.
    """

    job_name: str
    entrypoint: pulumi.Input[str]
    image: pulumi.Input[str]
    code: Mapping[str, Any]
    cluster: RayClusterArgs | RayCluster
    depends_on: list[pulumi.Resource]
    wait: bool
    max_hours: int | None = None
    alone: bool = False


class RayJob(Component):
    """A job that runs once for what it consists of: the operator ignores edits of a finished one.

    Attributes:
        job_name: Name of the RayJob.
        result: `Complete` once the job has; only with `wait`, else empty.
    """

    group = "workload"

    def __init__(self, name: str, args: RayJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        namespace = args.cluster.namespace
        depends_on = [*args.depends_on, *_dependencies_of(args.cluster)]
        values = {
            "entrypoint": args.entrypoint,
            "image": args.image,
            "code": dict(args.code),
            "namespace": namespace.namespace,
            "cluster": _cluster_fields(args.cluster),
            "limit": run_limit(args.max_hours),
        }
        unnamed = Manifest(_MANIFEST, {**values, "name": args.job_name, "annotations": {}})
        self.job_name = hashed_name(args.job_name, _MAX_NAME, unnamed.tree)
        opts = namespace.running_in(self, depends_on)
        # Created first, and waited for, its successor would wait for the machines that this one holds.
        opts.delete_before_replace = args.alone
        waits = {"annotations": {"pulumi.com/waitFor": _ENDED}} if args.wait else {}
        if args.wait:
            opts.custom_timeouts = _LONGEST_RUN
        named = Manifest(_MANIFEST, {**values, "name": self.job_name, "annotations": waits})
        job = named.create(f"{name}-ray-job", opts)
        self.result: pulumi.Output[str] = pulumi.Output.from_input("")
        if args.wait:
            self.result = pulumi.Output.all(job.status).apply(
                lambda status: _result(self.job_name, status[0])
            )
        self._kubectl = namespace.kubectl
        self.register_outputs({"name": self.job_name})

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job, its training's log and Ray's dashboard, by the name of the output."""
        cluster = f"{self._kubectl} get rayjob {self.job_name} --output jsonpath={{.status.rayClusterName}}"
        return {
            "watchJob": f"{self._kubectl} get rayjob {self.job_name} --watch",
            "watchTraining": f"{self._kubectl} logs --follow job/{self.job_name}",
            "openDashboard": f"{self._kubectl} port-forward service/$({cluster})-head-svc 8265:8265",
        }


def _dependencies_of(cluster: RayClusterArgs | RayCluster) -> list[pulumi.Resource]:
    return cluster.depends_on if isinstance(cluster, RayClusterArgs) else [cluster.access]


def _cluster_fields(cluster: RayClusterArgs | RayCluster) -> dict[str, Any]:
    if isinstance(cluster, RayCluster):
        # KubeRay deletes a shared cluster when it retries a job on it.
        # https://github.com/ray-project/kuberay/issues/4516
        return {"clusterSelector": {"ray.io/cluster": cluster.cluster_name}, "backoffLimit": 0}
    return {
        "rayClusterSpec": cluster.filled("unused").spec,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": _SECONDS_UNTIL_SHUTDOWN,
        "backoffLimit": _RETRIES,
    }


def _result(job_name: str, status: dict[str, Any] | None) -> str:
    """The job's end.

    Raises:
        pulumi.RunError: When the job failed.
    """
    result = (status or {}).get("jobDeploymentStatus", "")
    if result == "Failed":
        reason = (status or {}).get("message") or (status or {}).get("reason") or "no reason given"
        raise pulumi.RunError(
            f"the training failed: RayJob {job_name}: {reason}; its log is in the output of the stack's "
            "command watchTraining; changed code or a changed recipe runs a new job"
        )
    return result
