"""A job and a service on Cloud Run: containers with an L4 GPU in the stack's network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

import pulumi
import pulumi_gcp as gcp

from cloud.machines import GPU_RESOURCE, L4
from components.component import Component
from components.execution import Execution
from components.fingerprint import fingerprint
from components.hugging_face_token import HuggingFaceToken

# The longest that a task with a GPU may take; the default is ten minutes.
# https://docs.cloud.google.com/run/docs/configuring/task-timeout, assumption cloud-run-task-hours
_TASK_HOURS: Final = 1
# Google ends tasks for maintenance. A task that is started again resumes from its checkpoint.
_RETRIES: Final = 2
# User and group that the images in workloads/ run as; Cloud Run has no field for them.
_IMAGE_USER: Final = 1000
# A start may take 15 minutes: an image of 10 GB, the model from the bucket, the engine. With a GPU Cloud Run
# allows 30. https://docs.cloud.google.com/run/docs/configuring/jobs/healthchecks
_STARTUP_PERIOD: Final = 10
_STARTUP_TRIES: Final = 90
# An engine that does not answer for two minutes is started anew.
_LIVENESS_PERIOD: Final = 30
_LIVENESS_TRIES: Final = 4
_PROBE_TIMEOUT: Final = 5
# A first request waits for the start of an instance, and then five minutes for its answer.
_REQUEST_TIMEOUT: Final = f"{_STARTUP_PERIOD * _STARTUP_TRIES + 300}s"
# Cloud Run copies the image before the first start; the provider gives up after twenty minutes.
_FIRST_START: Final = pulumi.CustomTimeouts(create="40m", update="40m")


@dataclass(frozen=True, kw_only=True)
class BucketFolder:
    """A folder of a bucket that a container reads as files and cannot write to.

    Args:
        folder: Path of the folder, without a slash at either end.
    """

    bucket: pulumi.Input[str]
    folder: str

    def mounted(self) -> dict[str, Any]:
        """Arguments of a volume with this folder alone, whose directories are but parts of object names.

        The files are their reader's: GCS FUSE gives them to root unless it is told otherwise. What runs as
        root may read them all the same. https://docs.cloud.google.com/storage/docs/cloud-storage-fuse/cli-options
        """
        # assumption cloud-run-mount-options
        owner = [f"uid={_IMAGE_USER}", f"gid={_IMAGE_USER}"]
        return {
            "bucket": self.bucket,
            "mount_options": [f"only-dir={self.folder}", "implicit-dirs", *owner],
        }


@dataclass(frozen=True, kw_only=True)
class CloudRunArgs:
    """Arguments of a `CloudRunJob` as of a `CloudRunService`.

    Args:
        location: Region; one in which Cloud Run has L4 GPUs.
        image: Container image by digest.
        tokens: Environment variables with a token, always the same version: a container must not change by
            itself.
        folders: Path in the container to the folder of a bucket that is mounted there.
        memory_gib: Memory, the container's file system included.
        service_account: Address of the service account that it runs as.
        subnet: Id of the subnet that all its traffic goes through.
        depends_on: What must exist before it and is not among these arguments.
    """

    project: pulumi.Input[str]
    location: str
    labels: Mapping[str, str]
    image: pulumi.Input[str]
    command: Sequence[pulumi.Input[str]]
    environment: Mapping[str, str]
    tokens: Mapping[str, HuggingFaceToken] = field(default_factory=dict)
    folders: Mapping[str, BucketFolder]
    cpu: int
    memory_gib: int
    service_account: pulumi.Input[str]
    subnet: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]

    def template(
        self,
        kind: Literal["JobTemplateTemplate", "ServiceTemplate"],
        *,
        resources: Mapping[str, Any] | None = None,
        **container: Any,
    ) -> dict[str, Any]:
        """Fields of the template of a job's task or a service's instance.

        Args:
            kind: How the names of the SDK's classes for it begin.
            resources: Fields of the container's resources beside their limits.
            container: Fields of the container that only jobs or only services have.
        """
        sdk = partial(_sdk_args, kind)
        limits = {"cpu": str(self.cpu), "memory": f"{self.memory_gib}Gi", GPU_RESOURCE: "1"}
        names = {path: path.strip("/").replace("/", "-") for path in self.folders}
        return {
            "containers": [
                sdk(
                    "Container",
                    image=self.image,
                    commands=list(self.command),
                    envs=self._environment(sdk),
                    resources=sdk("ContainerResources", limits=limits, **(resources or {})),
                    volume_mounts=[
                        sdk("ContainerVolumeMount", name=name, mount_path=path)
                        for path, name in names.items()
                    ],
                    **container,
                )
            ],
            "volumes": [
                sdk("Volume", name=names[path], gcs=sdk("VolumeGcs", read_only=True, **folder.mounted()))
                for path, folder in self.folders.items()
            ],
            "service_account": self.service_account,
            "node_selector": sdk("NodeSelector", accelerator=L4.name),
            # New projects have quota for GPUs without zonal redundancy only.
            "gpu_zonal_redundancy_disabled": True,
            "vpc_access": sdk(
                "VpcAccess",
                # Not only the traffic to private addresses goes through the stack's subnet and its NAT.
                egress="ALL_TRAFFIC",
                network_interfaces=[sdk("VpcAccessNetworkInterface", subnetwork=self.subnet)],
            ),
        }

    def _environment(self, sdk: Callable[..., Any]) -> list[Any]:
        variables = [sdk("ContainerEnv", name=name, value=value) for name, value in self.environment.items()]
        for name, token in self.tokens.items():
            key = {"secret": token.secret_id, "version": token.version}
            reference = sdk("ContainerEnvValueSourceSecretKeyRef", **key)
            source = sdk("ContainerEnvValueSource", secret_key_ref=reference)
            variables.append(sdk("ContainerEnv", name=name, value_source=source))
        return variables


def _sdk_args(kind: str, noun: str, **fields: Any) -> Any:
    """The SDK has the same classes twice, such as `ServiceTemplateVolumeArgs`."""
    return getattr(gcp.cloudrunv2, f"{kind}{noun}Args")(**fields)


class CloudRunJob(Component):
    """A job that runs by itself whenever what it consists of has changed.

    `pulumi up` waits for the end of the run and fails if the job failed; the next one runs it again.

    Attributes:
        finished: What needs the job's result must wait for.
    """

    group = "workload"
    apis = ("run.googleapis.com",)

    def __init__(self, name: str, args: CloudRunArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        task = gcp.cloudrunv2.JobTemplateTemplateArgs(
            timeout=f"{_TASK_HOURS * 3600}s", max_retries=_RETRIES, **args.template("JobTemplateTemplate")
        )
        template = gcp.cloudrunv2.JobTemplateArgs(task_count=1, template=task)
        job = gcp.cloudrunv2.Job(
            f"{name}-job",
            project=args.project,
            location=args.location,
            labels=args.labels,
            template=template,
            # By default `pulumi destroy` would fail; a job holds no data.
            deletion_protection=False,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=list(args.depends_on), custom_timeouts=_FIRST_START
            ),
        )
        self.job_name: pulumi.Output[str] = job.name
        content = pulumi.Output.json_dumps(template, default=vars, sort_keys=True)
        self.finished: pulumi.Resource = Execution(
            f"{name}-execution",
            job=job.id,
            content=content.apply(fingerprint),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"name": self.job_name})


@dataclass(frozen=True, kw_only=True)
class CloudRunServiceArgs(CloudRunArgs):
    """Arguments of `CloudRunService`, besides those of `CloudRunArgs`.

    Args:
        health: Path that answers once it can work, and as long as it can.
        minimum: Instances that are kept, and paid, without requests; 0 scales to zero.
        maximum: Instances at most; each counts in the region's quota of GPUs.
        requests: Requests that one instance works on at the same time.
        invokers: IAM members who may call it, besides those who may by a role on the project.
    """

    port: int
    health: str
    minimum: int
    maximum: int
    requests: int
    invokers: Sequence[str]


class CloudRunService(Component):
    """A service that answers those whom IAM allows, and scales with its requests."""

    group = "workload"
    apis = ("run.googleapis.com",)

    def __init__(
        self, name: str, args: CloudRunServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, opts)
        service = gcp.cloudrunv2.Service(
            f"{name}-service",
            project=args.project,
            location=args.location,
            labels=args.labels,
            # Reachable from everywhere, so that the people who may call it need no VPN; who may is
            # checked by IAM at every request.
            ingress="INGRESS_TRAFFIC_ALL",
            invoker_iam_disabled=False,
            template=_template(args),
            # By default `pulumi destroy` would fail; a service holds no data.
            deletion_protection=False,
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=list(args.depends_on), custom_timeouts=_FIRST_START
            ),
        )
        for member in args.invokers:
            gcp.cloudrunv2.ServiceIamMember(
                f"{name}-invoker-{member}",
                project=service.project,
                location=service.location,
                name=service.name,
                role="roles/run.invoker",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.url: pulumi.Output[str] = service.uri
        self.register_outputs({"url": self.url})


def _template(args: CloudRunServiceArgs) -> gcp.cloudrunv2.ServiceTemplateArgs:
    return gcp.cloudrunv2.ServiceTemplateArgs(
        scaling=gcp.cloudrunv2.ServiceTemplateScalingArgs(
            min_instance_count=args.minimum, max_instance_count=args.maximum
        ),
        max_instance_request_concurrency=args.requests,
        timeout=_REQUEST_TIMEOUT,
        **args.template(
            "ServiceTemplate",
            # A GPU is only had with the CPU allocated all the time that an instance lives.
            resources={"cpu_idle": False, "startup_cpu_boost": True},
            ports=gcp.cloudrunv2.ServiceTemplateContainerPortsArgs(container_port=args.port),
            startup_probe=gcp.cloudrunv2.ServiceTemplateContainerStartupProbeArgs(
                http_get=gcp.cloudrunv2.ServiceTemplateContainerStartupProbeHttpGetArgs(
                    path=args.health, port=args.port
                ),
                period_seconds=_STARTUP_PERIOD,
                failure_threshold=_STARTUP_TRIES,
                timeout_seconds=_PROBE_TIMEOUT,
            ),
            liveness_probe=gcp.cloudrunv2.ServiceTemplateContainerLivenessProbeArgs(
                http_get=gcp.cloudrunv2.ServiceTemplateContainerLivenessProbeHttpGetArgs(
                    path=args.health, port=args.port
                ),
                period_seconds=_LIVENESS_PERIOD,
                failure_threshold=_LIVENESS_TRIES,
                timeout_seconds=_PROBE_TIMEOUT,
            ),
        ),
    )
