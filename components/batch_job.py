"""A Kubernetes Job, and the names that its pods find each other by."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pulumi

from components.manifest import MANIFESTS, Manifest, Values
from components.namespace import Namespace
from components.run import Run, RunArgs

# The provider awaits a Job's completion unless it is told not to, and fails when the Job fails.
_DO_NOT_WAIT: Final = {"pulumi.com/skipAwait": "true"}


class BatchJobArgs(RunArgs):
    """Arguments of `BatchJob`, besides those of every `Run`.

    Args:
        manifest: Job manifest with the holes `name`, `namespace`, `annotations`, `limit` and those of
            `values`.
        service: Name of a Service by which its pods, which have it as their label `app`, find each other:
            each is POD.SERVICE, whichever node it is on. None where they need not.
        depends_on: What its pods need and the manifest names.
    """

    namespace: Namespace
    manifest: Path
    values: Values
    service: str | None = None
    depends_on: Sequence[pulumi.Resource]


class BatchJob(Run[BatchJobArgs]):
    """A Kubernetes Job."""

    _longest_name = 63

    def _declare(self, name: str, args: BatchJobArgs) -> None:
        annotations = {} if args.wait else _DO_NOT_WAIT
        needed = list(args.depends_on)
        if args.service:
            holes = {"name": args.service, "namespace": args.namespace.namespace}
            service = Manifest(MANIFESTS / "headless-service.yaml", holes)
            needed.append(service.create(f"{name}-{args.service}-service", args.namespace.inside(self)))
        options = args.namespace.running_in(self, needed)
        self._start(f"{name}-job", args, args.namespace, args.manifest, args.values, annotations, options)

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job and the log of its pods, by the name of the stack's output."""
        pods = f"--selector batch.kubernetes.io/job-name={self.job_name}"
        return {
            "watchJob": f"{self._kubectl} get job {self.job_name} --watch",
            "watchTraining": f"{self._kubectl} logs --follow --tail=-1 {pods}",
        }
