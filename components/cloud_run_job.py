"""A Cloud Run job on a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.cloud_run import CloudRunArgs
from components.component import Component
from components.fingerprint import fingerprint

# The longest that a task with a GPU may take; the default is ten minutes.
# https://docs.cloud.google.com/run/docs/configuring/task-timeout
_TASK_HOURS: Final = 1
# Google ends tasks for maintenance. A task that is started again resumes from its checkpoint.
_RETRIES: Final = 2
# All tries, and the image that Cloud Run copies before the first; the provider gives up after
# twenty minutes.
_LONGEST_RUN: Final = pulumi.CustomTimeouts(create="4h", update="4h")


@dataclass(frozen=True, kw_only=True)
class CloudRunJobArgs(CloudRunArgs):
    """Arguments of `CloudRunJob`, besides those of `CloudRunArgs`.

    Args:
        max_hours: Hours after which the task is not tried again, None for two more tries.
    """

    max_hours: int | None = None


class CloudRunJob(Component):
    """A job that runs by itself whenever what it consists of has changed.

    `pulumi up` waits for the end of the run and fails if the job failed.

    Attributes:
        finished: What needs the job's result must wait for.
    """

    group = "workload"
    apis = ("run.googleapis.com",)

    def __init__(self, name: str, args: CloudRunJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        # As many tries as fit: every one may take all of its own time.
        retries = _RETRIES if args.max_hours is None else min(_RETRIES, args.max_hours // _TASK_HOURS - 1)
        task = gcp.cloudrunv2.JobTemplateTemplateArgs(
            timeout=f"{_TASK_HOURS * 3600}s", max_retries=retries, **args.template("JobTemplateTemplate")
        )
        template = gcp.cloudrunv2.JobTemplateArgs(task_count=1, template=task)
        job = gcp.cloudrunv2.Job(
            f"{name}-job",
            project=args.project,
            location=args.location,
            labels=args.labels,
            template=template,
            run_execution_token=_token(template, args.labels),
            # By default `pulumi destroy` would fail; a job holds no data.
            deletion_protection=False,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=list(args.depends_on), custom_timeouts=_LONGEST_RUN
            ),
        )
        self.job_name: pulumi.Output[str] = job.name
        self.finished: pulumi.Resource = job
        self.register_outputs({"name": self.job_name})


def _token(template: gcp.cloudrunv2.JobTemplateArgs, labels: Mapping[str, str]) -> pulumi.Output[str]:
    """Digest of all that an update could change: Google rejects a second run with the same token.

    https://github.com/hashicorp/terraform-provider-google/issues/24451
    """
    return pulumi.Output.json_dumps([template, dict(labels)], default=vars, sort_keys=True).apply(fingerprint)
