"""A Kubernetes Job and the Service through which its pods find each other."""

from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Final

import pulumi

from components.base.manifest import MANIFESTS, Manifest, Values
from components.base.pod_patch import PodPatch
from components.cluster.namespace import Namespace
from components.workload.job import Job, JobArgs

# By default the provider waits until a Job has completed, and fails when the Job fails.
_DO_NOT_WAIT: Final = {"pulumi.com/skipAwait": "true"}


class BatchJobArgs(JobArgs):
    """Arguments of `BatchJob`, besides those of every `Run`.

    Args:
        manifest: Job manifest with the holes `name`, `namespace`, `annotations`, `limit` and those of
            `values`.
        patch: Additions to the pods of the manifest.
        service: Name of a headless Service, which is also the label `app` of the pods. It makes a pod
            reachable as POD.SERVICE on any node. None if the pods need no names.
        depends_on: Resources that the pods need and that the manifest refers to by name only.
    """

    namespace: Namespace
    manifest: Path
    values: Values
    patch: PodPatch = field(default_factory=PodPatch)
    service: str | None = None
    depends_on: Sequence[pulumi.Resource]


class BatchJob(Job[BatchJobArgs]):
    """A Kubernetes Job.

    Attributes:
        ended: The Job. With `wait`, what depends on it exists only after its success.
    """

    _longest_name = 63

    def _declare(self, name: str, args: BatchJobArgs) -> None:
        annotations = {} if args.wait else _DO_NOT_WAIT
        dependencies = list(args.depends_on)
        if args.service:
            holes = {"name": args.service, "namespace": args.namespace.namespace}
            service = Manifest(MANIFESTS / "headless-service.yaml", holes)
            options = args.namespace.inside(self)
            dependencies.append(service.create(f"{name}-{args.service}-service", options))

        def fill(values: Values) -> Manifest:
            manifest = Manifest(args.manifest, {**args.values, **values})
            args.patch.add_to(manifest.tree["spec"]["template"])
            return manifest

        options = args.namespace.running_in(self, dependencies)
        self.ended: pulumi.Resource = self._start(
            f"{name}-job", args, args.namespace, fill, annotations, options
        )

    def commands(self, log: str) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job and the log of its pods, keyed by the name of the stack output.

        Args:
            log: Name of the output that shows the log, after what the pods do: `watchTraining`.
        """
        pods = f"--selector batch.kubernetes.io/job-name={self.job_name}"
        return {
            "watchJob": f"{self._kubectl} get job {self.job_name} --watch",
            log: f"{self._kubectl} logs --follow --tail=-1 {pods}",
        }
