"""A job and a service on Cloud Run: containers with an L4 GPU in the stack's network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_gcp as gcp

from cloud.machines import GPU_RESOURCE, L4
from components.component import Args, Component
from components.execution import Execution
from components.fingerprint import fingerprint
from components.identity import EVERYBODY
from components.token import Token

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
        return {"bucket": self.bucket, "mount_options": [f"only-dir={self.folder}", "implicit-dirs", *owner]}


class CloudRunArgs(Args):
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
    tokens: Mapping[str, Token] = field(default_factory=dict)
    folders: Mapping[str, BucketFolder]
    cpu: int
    memory_gib: int
    service_account: pulumi.Input[str]
    subnet: pulumi.Input[str]
    depends_on: Sequence[pulumi.Resource]

    def resource(self, parent: pulumi.Resource) -> dict[str, Any]:
        """Arguments of the resource beside its template."""
        return {
            "project": self.project,
            "location": self.location,
            "labels": self.labels,
            # By default `pulumi destroy` would fail; neither holds data.
            "deletion_protection": False,
            "opts": pulumi.ResourceOptions(
                parent=parent, depends_on=list(self.depends_on), custom_timeouts=_FIRST_START
            ),
        }

    def template(self, resources: Mapping[str, Any], **container: Any) -> dict[str, Any]:
        """Fields of the template of a job's task or a service's instance.

        Args:
            resources: Fields of the container's resources beside their limits.
            container: Fields of the container that only services have.
        """
        limits = {"cpu": str(self.cpu), "memory": f"{self.memory_gib}Gi", GPU_RESOURCE: "1"}
        names = {path: path.strip("/").replace("/", "-") for path in self.folders}
        return {
            "containers": [
                {
                    "image": self.image,
                    "commands": list(self.command),
                    "envs": [
                        *({"name": name, "value": value} for name, value in self.environment.items()),
                        *(_secret(name, token) for name, token in self.tokens.items()),
                    ],
                    "resources": {"limits": limits, **resources},
                    "volume_mounts": [{"name": name, "mount_path": path} for path, name in names.items()],
                    **container,
                }
            ],
            "volumes": [
                {"name": names[path], "gcs": {"read_only": True, **folder.mounted()}}
                for path, folder in self.folders.items()
            ],
            "service_account": self.service_account,
            "node_selector": {"accelerator": L4.name},
            # New projects have quota for GPUs without zonal redundancy only.
            "gpu_zonal_redundancy_disabled": True,
            # Not only the traffic to private addresses goes through the stack's subnet and its NAT.
            "vpc_access": {"egress": "ALL_TRAFFIC", "network_interfaces": [{"subnetwork": self.subnet}]},
        }


def _secret(name: str, token: Token) -> dict[str, Any]:
    reference = {"secret": token.secret_id, "version": token.version}
    return {"name": name, "value_source": {"secret_key_ref": reference}}


class CloudRunJob(Component[CloudRunArgs]):
    """A job that runs by itself whenever what it consists of has changed.

    `pulumi up` waits for the end of the run and fails if the job failed; the next one runs it again.

    Attributes:
        finished: What needs the job's result must wait for.
    """

    group = "workload"
    apis = ("run.googleapis.com",)

    def _declare(self, name: str, args: CloudRunArgs) -> None:
        task = {"timeout": f"{_TASK_HOURS * 3600}s", "max_retries": _RETRIES, **args.template({})}
        template: Any = {"task_count": 1, "template": task}
        job = gcp.cloudrunv2.Job(f"{name}-job", template=template, **args.resource(self))
        self.job_name: pulumi.Output[str] = job.name
        content = pulumi.Output.json_dumps(template, sort_keys=True)
        self.finished: pulumi.Resource = Execution(
            f"{name}-execution",
            job=job.id,
            content=content.apply(fingerprint),
            opts=pulumi.ResourceOptions(parent=self),
        )


class CloudRunServiceArgs(CloudRunArgs):
    """Arguments of `CloudRunService`, besides those of `CloudRunArgs`.

    Args:
        health: Path that answers once it can work, and as long as it can.
        minimum: Instances that are kept, and paid, without requests; 0 scales to zero.
        maximum: Instances at most; each counts in the region's quota of GPUs.
        requests: Requests that one instance works on at the same time.
        invokers: IAM members who may call it, besides those who may by a role on the project; `EVERYBODY`
            opens it to the internet.
    """

    port: int
    health: str
    minimum: int
    maximum: int
    requests: int
    invokers: Sequence[str]


class CloudRunService(Component[CloudRunServiceArgs]):
    """A service that answers those whom IAM allows, and scales with its requests."""

    group = "workload"
    apis = ("run.googleapis.com",)

    def _declare(self, name: str, args: CloudRunServiceArgs) -> None:
        service = gcp.cloudrunv2.Service(
            f"{name}-service",
            # Reachable from everywhere, so that the people who may call it need no VPN; who may is
            # checked by IAM at every request.
            ingress="INGRESS_TRAFFIC_ALL",
            # For everybody the check is switched off. A binding of `allUsers` would do the same, but
            # organisations since May 2024 refuse it by default (constraint iam.allowedPolicyMemberDomains).
            # https://docs.cloud.google.com/run/docs/authenticating/public
            invoker_iam_disabled=EVERYBODY in args.invokers,
            template=_template(args),
            **args.resource(self),
        )
        for member in (member for member in args.invokers if member != EVERYBODY):
            gcp.cloudrunv2.ServiceIamMember(
                f"{name}-invoker-{member}",
                project=service.project,
                location=service.location,
                name=service.name,
                role="roles/run.invoker",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
        found = (pulumi.runtime.is_dry_run(), service.urn, service.uri, service.terminal_conditions)
        self.url: pulumi.Output[str] = pulumi.Output.all(*found).apply(lambda each: _address(*each))


def _template(args: CloudRunServiceArgs) -> Any:
    probe = {"http_get": {"path": args.health, "port": args.port}, "timeout_seconds": _PROBE_TIMEOUT}
    start = {"period_seconds": _STARTUP_PERIOD, "failure_threshold": _STARTUP_TRIES}
    life = {"period_seconds": _LIVENESS_PERIOD, "failure_threshold": _LIVENESS_TRIES}
    return {
        "scaling": {"min_instance_count": args.minimum, "max_instance_count": args.maximum},
        "max_instance_request_concurrency": args.requests,
        "timeout": _REQUEST_TIMEOUT,
        **args.template(
            # A GPU is only had with the CPU allocated all the time that an instance lives.
            {"cpu_idle": False, "startup_cpu_boost": True},
            ports={"container_port": args.port},
            startup_probe={**probe, **start},
            liveness_probe={**probe, **life},
        ),
    }


def _address(dry: bool, urn: str, uri: str, conditions: Sequence[Mapping[str, str]] | None) -> str:
    """The address of a service whose newest revision has started.

    The provider keeps one whose revision did not, and the next update finds nothing to do.
    https://github.com/hashicorp/terraform-provider-google/issues/22565

    Args:
        dry: Whether this is a preview, which shows the state from before.

    Raises:
        pulumi.RunError: When it has not started.
    """
    ready = conditions[0] if conditions else {"message": "it was never ready"}
    if dry or ready.get("state") == "CONDITION_SUCCEEDED":
        return uri
    raise pulumi.RunError(
        f"the newest revision on Cloud Run did not start: {ready.get('message')}; a change makes another, "
        f"and `pulumi up --refresh --replace '{urn}'` tries the same once more, at another address"
    )
