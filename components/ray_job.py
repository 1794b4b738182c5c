"""A job on a Ray cluster, run by the KubeRay operator."""

from dataclasses import dataclass
from typing import Any, Final

import pulumi

from components.manifest import MANIFESTS
from components.ray_cluster import RayCluster, RayClusterArgs
from components.run import Run, RunArgs
from components.training_code import TrainingCode

# A job that failed has ended too; `RayJob.result` tells the two apart.
_ENDED: Final = "jsonpath={.status[?@ == 'Complete' || @ == 'Failed']}"
# New clusters for a job whose own was lost, before it counts as failed; each one resumes.
_RETRIES: Final = 2
# Long enough for the log collector to ship the last lines before the pods go.
_SECONDS_UNTIL_SHUTDOWN: Final = 60


@dataclass(frozen=True, kw_only=True)
class RayJobArgs(RunArgs):
    """Arguments of `RayJob`, besides those of every `Run`.

    Args:
        entrypoint: Command line that the cluster runs.
        code: The job's working directory.
        cluster: A cluster of its own, shut down when the job ends, or a shared one.
        alone: Whether there are machines for one such job only: what replaces it begins when it has gone.
    """

    entrypoint: pulumi.Input[str]
    code: TrainingCode
    cluster: RayClusterArgs | RayCluster
    alone: bool = False


class RayJob(Run):
    """A job of Ray's operator, in the namespace and with the image of its cluster.

    Attributes:
        result: `Complete` once the job has; only with `wait`, else empty.
    """

    # https://github.com/ray-project/kuberay: the operator rejects longer ones.
    _longest_name = 47

    def __init__(self, name: str, args: RayJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        cluster, namespace = args.cluster, args.cluster.namespace
        needed = cluster.depends_on if isinstance(cluster, RayClusterArgs) else [cluster.access]
        values = {
            "entrypoint": args.entrypoint,
            "image": cluster.image.uri,
            "code": args.code.volume,
            "cluster": _cluster_fields(cluster),
        }
        options = namespace.running_in(self, [args.code.access, *needed])
        # Created first, and waited for, its successor would wait for the machines that this one holds.
        options.delete_before_replace = args.alone
        waits = {"annotations": {"pulumi.com/waitFor": _ENDED}} if args.wait else {}
        manifest = MANIFESTS / "ray-job.yaml"
        job = self._start(f"{name}-ray-job", args, namespace, manifest, values, waits, options)
        self.result: pulumi.Output[str] = pulumi.Output.from_input("")
        if args.wait:
            self.result = pulumi.Output.all(job.status).apply(
                lambda status: _result(self.job_name, status[0])
            )
        self.register_outputs({"name": self.job_name})

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job, its training's log and Ray's dashboard, by the name of the output."""
        cluster = f"{self._kubectl} get rayjob {self.job_name} --output jsonpath={{.status.rayClusterName}}"
        return {
            "watchJob": f"{self._kubectl} get rayjob {self.job_name} --watch",
            "watchTraining": f"{self._kubectl} logs --follow job/{self.job_name}",
            "openDashboard": f"{self._kubectl} port-forward service/$({cluster})-head-svc 8265:8265",
        }


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
