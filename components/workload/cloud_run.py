"""A job and a service on Cloud Run: containers with an L4 GPU in the stack's network."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Literal

import pulumi
import pulumi_gcp as gcp

from cloud.machines import GPU_RESOURCE, L4
from components.base.component import Args, Component
from components.base.fingerprint import fingerprint
from components.execution import Execution
from components.identity.identity import EVERYBODY
from components.identity.token import Token
from components.storage.bucket_folder import BucketFolder

# The maximum for a task with a GPU. The default is ten minutes.
# https://docs.cloud.google.com/run/docs/configuring/task-timeout, assumption cloud-run-task-hours
_TASK_HOURS: Final = 1
# Google ends tasks for maintenance. A task that is started again resumes from its checkpoint.
_RETRIES: Final = 2
# A start may take 15 minutes: it pulls an image of 10 GB, loads the model from the bucket and starts the
# engine. With a GPU Cloud Run allows 30 minutes (assumption start-on-cloud-run).
# https://docs.cloud.google.com/run/docs/configuring/jobs/healthchecks
_STARTUP_PERIOD: Final = 10
_STARTUP_TRIES: Final = 90
# Cloud Run restarts an engine that has not answered for two minutes.
_LIVENESS_PERIOD: Final = 30
_LIVENESS_TRIES: Final = 4
_PROBE_TIMEOUT: Final = 5
# The first request waits for the start of an instance. Then it has five minutes for its answer.
_REQUEST_TIMEOUT: Final = f"{_STARTUP_PERIOD * _STARTUP_TRIES + 300}s"
# Cloud Run copies the image before the first start. By default the provider gives up after 20 minutes.
_FIRST_START: Final = pulumi.CustomTimeouts(create="40m", update="40m")

Ingress = Literal["all", "internal"]
_INGRESS: Final[dict[Ingress, str]] = {
    "all": "INGRESS_TRAFFIC_ALL",
    "internal": "INGRESS_TRAFFIC_INTERNAL_ONLY",
}


class CloudRunArgs(Args):
    """Arguments that `CloudRunJob` and `CloudRunService` share.

    Args:
        location: Region in which Cloud Run has L4 GPUs.
        image: Container image by digest.
        tokens: Tokens by environment variable. The version of each is fixed, because a container must not
            change without an update.
        folders: Folders of a bucket by the path where the container sees them.
        memory_gib: Memory in GiB, which includes the container's file system.
        service_account: E-mail address of the service account that the container runs as.
        subnet: Id of the subnet that carries all traffic.
        kms_key: Path of the key that encrypts the image's copy. None means a key of Google's.
        binary_authorization: Whether the project's policy decides which images start.
        depends_on: Resources that must exist first and are not among the other arguments.
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
    kms_key: str | None = None
    binary_authorization: bool = False
    depends_on: Sequence[pulumi.Resource]

    def resource(self, parent: pulumi.Resource) -> dict[str, Any]:
        """Arguments of the resource, without its template."""
        return {
            "project": self.project,
            "location": self.location,
            "labels": self.labels,
            # By default `pulumi destroy` would fail. Neither jobs nor services hold data.
            "deletion_protection": False,
            **({"binary_authorization": {"use_default": True}} if self.binary_authorization else {}),
            "opts": pulumi.ResourceOptions(
                parent=parent, depends_on=list(self.depends_on), custom_timeouts=_FIRST_START
            ),
        }

    def template(self, resources: Mapping[str, Any], **container: Any) -> dict[str, Any]:
        """Fields of the template for a job's task or a service's instance.

        Args:
            resources: Fields of the container's resources, without the limits.
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
            # A job runs again when its template changes, so a key that is not set must not be in it.
            **({"encryption_key": self.kms_key} if self.kms_key else {}),
            "node_selector": {"accelerator": L4.name},
            # New projects have quota only for GPUs without zonal redundancy.
            "gpu_zonal_redundancy_disabled": True,
            # All traffic goes through the stack's subnet and its NAT, not only that to private addresses.
            "vpc_access": {"egress": "ALL_TRAFFIC", "network_interfaces": [{"subnetwork": self.subnet}]},
        }


def _secret(name: str, token: Token) -> dict[str, Any]:
    reference = {"secret": token.secret_id, "version": token.version}
    return {"name": name, "value_source": {"secret_key_ref": reference}}


class CloudRunJob(Component[CloudRunArgs]):
    """A job that `pulumi up` runs after every change of its template.

    `pulumi up` waits for the end of the run and fails if the job fails. The next `pulumi up` then runs the
    job again.

    Attributes:
        finished: The successful execution. A user of the job's result must wait for it.
    """

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
        health: Path that answers as long as the server can work.
        minimum: Instances that run, and cost money, without requests. 0 scales to zero.
        maximum: Most instances. Each counts in the region's GPU quota.
        requests: Requests that one instance handles at the same time.
        invokers: IAM members that may call the service, besides those with a role on the project.
            `EVERYBODY` lets every caller in.
        ingress: From where requests are taken: `all` is the internet, `internal` the project's networks.
    """

    port: int
    health: str
    minimum: int
    maximum: int
    requests: int
    invokers: Sequence[str]
    ingress: Ingress


class CloudRunService(Component[CloudRunServiceArgs]):
    """A service that only allowed IAM members can call, and that scales with its requests."""

    apis = ("run.googleapis.com",)

    def _declare(self, name: str, args: CloudRunServiceArgs) -> None:
        service = gcp.cloudrunv2.Service(
            f"{name}-service",
            ingress=_INGRESS[args.ingress],
            # `EVERYBODY` switches the check off. A binding of `allUsers` would do the same, but since May
            # 2024 organisations refuse it by default (constraint iam.allowedPolicyMemberDomains).
            # https://docs.cloud.google.com/run/docs/authenticating/public
            invoker_iam_disabled=EVERYBODY in args.invokers,
            template=_template(args),
            **args.resource(self),
        )
        for member in args.invokers:
            if member == EVERYBODY:
                continue
            gcp.cloudrunv2.ServiceIamMember(
                f"{name}-invoker-{member}",
                project=service.project,
                location=service.location,
                name=service.name,
                role="roles/run.invoker",
                member=member,
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.service_name: pulumi.Output[str] = service.name
        self.url: pulumi.Output[str] = pulumi.Output.all(
            urn=service.urn, uri=service.uri, conditions=service.terminal_conditions
        ).apply(lambda known: _address(dry_run=pulumi.runtime.is_dry_run(), **known))


def _template(args: CloudRunServiceArgs) -> Any:
    probe = {"http_get": {"path": args.health, "port": args.port}, "timeout_seconds": _PROBE_TIMEOUT}
    start = {"period_seconds": _STARTUP_PERIOD, "failure_threshold": _STARTUP_TRIES}
    life = {"period_seconds": _LIVENESS_PERIOD, "failure_threshold": _LIVENESS_TRIES}
    return {
        "scaling": {"min_instance_count": args.minimum, "max_instance_count": args.maximum},
        "max_instance_request_concurrency": args.requests,
        "timeout": _REQUEST_TIMEOUT,
        **args.template(
            # Cloud Run offers GPUs only with a CPU that is allocated for the whole life of an instance.
            {"cpu_idle": False, "startup_cpu_boost": True},
            ports={"container_port": args.port},
            startup_probe={**probe, **start},
            liveness_probe={**probe, **life},
        ),
    }


def _address(*, dry_run: bool, urn: str, uri: str, conditions: Sequence[Mapping[str, str]] | None) -> str:
    """The address of a service, if its newest revision has started.

    The provider keeps a service whose revision did not start, and the next update finds nothing to do.
    https://github.com/hashicorp/terraform-provider-google/issues/22565

    Args:
        dry_run: Whether this is a preview, which sees the state before the update.

    Raises:
        pulumi.RunError: If the newest revision has not started.
    """
    ready = conditions[0] if conditions else {"message": "it was never ready"}
    if dry_run or ready.get("state") == "CONDITION_SUCCEEDED":
        return uri
    raise pulumi.RunError(
        f"the newest revision on Cloud Run did not start: {ready.get('message')}; change a setting to get a "
        f"new revision, or try the same again at another address: `pulumi up --refresh --replace '{urn}'`"
    )
