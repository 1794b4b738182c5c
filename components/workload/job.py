"""The base class of Jobs and RayJobs, which run once per content."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pulumi

from components.base.component import A, Args, Component
from components.base.fingerprint import hashed_name, outputs_in
from components.base.manifest import KubernetesObject, Manifest, Values
from components.cluster.namespace import Namespace

# Longer than any run of the shipped recipes. The provider's default limit is ten minutes.
_LONGEST_RUN: Final = pulumi.CustomTimeouts(create="24h", update="24h")


class JobArgs(Args):
    """Arguments of every `Job`.

    Args:
        job_name: Start of the job's name. A digest of its content follows.
        wait: Whether `pulumi up` waits for the end of the job and fails if the job fails.
        deadline_hours: Hours after which Kubernetes ends the job. None means no limit.
    """

    job_name: str
    wait: bool
    deadline_hours: int | None = None


class Job(Component[A]):
    """A job with an immutable template: another template is another job."""

    _longest_name: ClassVar[int]

    def _start(
        self,
        name: str,
        args: JobArgs,
        namespace: Namespace,
        fill: Callable[[Values], Manifest],
        annotations: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
    ) -> KubernetesObject:
        """Creates the object of a manifest.

        Args:
            fill: Returns the manifest with values for its holes `name`, `namespace`, `annotations` and
                `limit`.
        """
        # After a suspension by Kueue, a Job's time starts again from zero.
        # https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job
        hours = args.deadline_hours
        limit = {} if hours is None else {"activeDeadlineSeconds": hours * 3600}
        values = {"namespace": namespace.namespace, "limit": limit}
        content = fill({**values, "name": args.job_name, "annotations": {}}).tree
        self.job_name = hashed_name(args.job_name, self._longest_name, content)
        self._kubectl = namespace.kubectl
        # `pulumi up --replace` creates a job of the same name, which must be free. With another name the
        # machines must be free: two jobs at once would wait for each other and write to the same run.
        opts.delete_before_replace = True
        # The digest does not cover the values of outputs, such as the automatic name of a bucket. Their
        # change must replace the job, because Ray's operator ignores an update of a job that it has started.
        opts.replacement_trigger = list(outputs_in(content))
        if args.wait:
            opts.custom_timeouts = _LONGEST_RUN
        job = fill({**values, "name": self.job_name, "annotations": annotations})
        return job.create(name, opts)
