"""What runs once for all that it consists of: Jobs and RayJobs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pulumi

from components.component import A, Args, Component
from components.fingerprint import hashed_name, outputs_in
from components.manifest import KubernetesObject, Manifest, Values
from components.namespace import Namespace

# Longer than any run of the shipped recipes; the provider's own limit is ten minutes.
_LONGEST_RUN: Final = pulumi.CustomTimeouts(create="24h", update="24h")


class RunArgs(Args):
    """Arguments of every `Run`.

    Args:
        job_name: Start of the job's name; a digest of all it consists of follows.
        wait: Whether `pulumi up` waits for the end of the job and fails if the job failed.
        deadline_hours: Hours after which Kubernetes ends the job, None for no limit.
    """

    job_name: str
    wait: bool
    deadline_hours: int | None = None


class Run(Component[A]):
    """A job whose template cannot be edited: another one is another job."""

    group = "workload"
    _longest_name: ClassVar[int]

    def _start(
        self,
        name: str,
        args: RunArgs,
        namespace: Namespace,
        manifest: Path,
        values: Values,
        annotations: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
    ) -> KubernetesObject:
        """Creates the object of a manifest with the holes `name`, `namespace`, `annotations` and `limit`."""
        # A Job that Kueue suspends starts its time anew when it goes on.
        # https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
        hours = args.deadline_hours
        limit = {} if hours is None else {"activeDeadlineSeconds": hours * 3600}
        values = {**values, "namespace": namespace.namespace, "limit": limit}
        content = Manifest(manifest, {**values, "name": args.job_name, "annotations": {}}).tree
        self.job_name = hashed_name(args.job_name, self._longest_name, content)
        self._kubectl = namespace.kubectl
        # `pulumi up --replace` makes a job of the same name, which must be free. For another name it is the
        # machines that must be free: two jobs at a time would wait for each other, and write one run.
        opts.delete_before_replace = True
        # The digest does not tell what outputs have become, such as the automatic name of a bucket, and Ray's
        # operator ignores an update of a job that it has begun.
        opts.replacement_trigger = list(outputs_in(content))
        if args.wait:
            opts.custom_timeouts = _LONGEST_RUN
        named = Manifest(manifest, {**values, "name": self.job_name, "annotations": annotations})
        return named.create(name, opts)
