"""A Cloud Run job on a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.cloud_run import ALL_TRAFFIC, L4, BucketFolder, L4Machine, SecretVersion, volume_name
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
class CloudRunJobArgs:
    """Arguments of `CloudRunJob`.

    Args:
        project: Project id.
        location: Region; one in which Cloud Run has L4 GPUs.
        labels: Labels of the job.
        image: Container image by digest.
        command: What it runs.
        environment: Its environment.
        secrets: Environment variables whose values are secrets.
        folders: Path in the container to the folder of a bucket that is mounted there.
        machine: CPU and memory beside the GPU.
        service_account: Address of the service account that it runs as.
        subnet: Id of the subnet that all its traffic goes through.
        depends_on: What it needs and these arguments do not name.
        max_hours: Hours after which no further try of the task is made, None for two more tries.
    """

    project: pulumi.Input[str]
    location: str
    labels: Mapping[str, str]
    image: pulumi.Input[str]
    command: Sequence[pulumi.Input[str]]
    environment: Mapping[str, str]
    secrets: Mapping[str, SecretVersion]
    folders: Mapping[str, BucketFolder]
    machine: L4Machine
    service_account: pulumi.Input[str]
    subnet: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]
    max_hours: int | None = None


class CloudRunJob(Component):
    """A job that runs by itself whenever what it consists of has changed.

    `pulumi up` waits for the end of the run and fails if the job failed.

    Attributes:
        job_name: Name of the job.
        finished: What needs the job's result must wait for.
    """

    group = "workload"
    apis = ("run.googleapis.com",)

    def __init__(self, name: str, args: CloudRunJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        template = gcp.cloudrunv2.JobTemplateArgs(task_count=1, template=_task(args))
        job = gcp.cloudrunv2.Job(
            f"{name}-job",
            project=args.project,
            location=args.location,
            labels=args.labels,
            template=template,
            run_execution_token=_token(template, args.labels),
            # The default refuses `pulumi destroy`; a job holds nothing.
            deletion_protection=False,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=list(args.depends_on), custom_timeouts=_LONGEST_RUN
            ),
        )
        self.job_name: pulumi.Output[str] = job.name
        self.finished: pulumi.Resource = job
        self.register_outputs({"name": self.job_name})


def _token(template: gcp.cloudrunv2.JobTemplateArgs, labels: Mapping[str, str]) -> pulumi.Output[str]:
    """Digest of all that an update could change: Google refuses a second run by the same token.

    https://github.com/hashicorp/terraform-provider-google/issues/24451
    """
    return pulumi.Output.json_dumps([template, dict(labels)], default=vars, sort_keys=True).apply(fingerprint)


def _task(args: CloudRunJobArgs) -> gcp.cloudrunv2.JobTemplateTemplateArgs:
    return gcp.cloudrunv2.JobTemplateTemplateArgs(
        containers=[_container(args)],
        volumes=[
            gcp.cloudrunv2.JobTemplateTemplateVolumeArgs(
                name=volume_name(path),
                gcs=gcp.cloudrunv2.JobTemplateTemplateVolumeGcsArgs(
                    bucket=folder.bucket, read_only=True, mount_options=folder.mount_options
                ),
            )
            for path, folder in args.folders.items()
        ],
        service_account=args.service_account,
        timeout=f"{_TASK_HOURS * 3600}s",
        max_retries=_retries(args.max_hours),
        node_selector=gcp.cloudrunv2.JobTemplateTemplateNodeSelectorArgs(accelerator=L4),
        # New projects have quota for GPUs without zonal redundancy only.
        gpu_zonal_redundancy_disabled=True,
        vpc_access=gcp.cloudrunv2.JobTemplateTemplateVpcAccessArgs(
            egress=ALL_TRAFFIC,
            network_interfaces=[
                gcp.cloudrunv2.JobTemplateTemplateVpcAccessNetworkInterfaceArgs(subnetwork=args.subnet)
            ],
        ),
    )


def _retries(max_hours: int | None) -> int:
    """As many as fit: every try may take all of its own time."""
    return _RETRIES if max_hours is None else min(_RETRIES, max_hours // _TASK_HOURS - 1)


def _container(args: CloudRunJobArgs) -> gcp.cloudrunv2.JobTemplateTemplateContainerArgs:
    plain = [
        gcp.cloudrunv2.JobTemplateTemplateContainerEnvArgs(name=variable, value=value)
        for variable, value in args.environment.items()
    ]
    secret = [
        gcp.cloudrunv2.JobTemplateTemplateContainerEnvArgs(
            name=variable,
            value_source=gcp.cloudrunv2.JobTemplateTemplateContainerEnvValueSourceArgs(
                secret_key_ref=gcp.cloudrunv2.JobTemplateTemplateContainerEnvValueSourceSecretKeyRefArgs(
                    secret=version.secret_id, version=version.version
                )
            ),
        )
        for variable, version in args.secrets.items()
    ]
    return gcp.cloudrunv2.JobTemplateTemplateContainerArgs(
        image=args.image,
        commands=list(args.command),
        envs=[*plain, *secret],
        resources=gcp.cloudrunv2.JobTemplateTemplateContainerResourcesArgs(limits=args.machine.limits),
        volume_mounts=[
            gcp.cloudrunv2.JobTemplateTemplateContainerVolumeMountArgs(
                name=volume_name(path), mount_path=path
            )
            for path in args.folders
        ],
    )
