"""A private Cloud Run service on GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_gcp as gcp

from components.cloud_run import CloudRunArgs
from components.component import Component

# A start may take 60 s and then 24 tries, 10 s apart: 5 minutes. More than 240 s for the tries is
# rejected, and a longer delay would keep a service that is ready from answering.
# https://github.com/PolicyEngine/policyengine-api/issues/3764
_STARTUP_DELAY: Final = 60
_STARTUP_PERIOD: Final = 10
_STARTUP_TRIES: Final = 24
# An engine that does not answer for two minutes is started anew.
_LIVENESS_PERIOD: Final = 30
_LIVENESS_TRIES: Final = 4
_PROBE_TIMEOUT: Final = 5
# A first request waits for the start of an instance, and then for its answer.
_REQUEST_TIMEOUT: Final = "600s"
# Cloud Run copies the image before the first start; the provider gives up after twenty minutes.
_FIRST_START: Final = pulumi.CustomTimeouts(create="40m", update="40m")


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
                initial_delay_seconds=_STARTUP_DELAY,
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
