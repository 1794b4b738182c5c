"""A Kubernetes Job, and the names that its pods find each other by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pulumi

from components.component import Component
from components.fingerprint import hashed_name
from components.manifest import MANIFESTS, Manifest, Values, run_limit
from components.namespace import Namespace

_MAX_NAME: Final = 63
# Longer than any run of the shipped recipes; the provider's own limit is ten minutes.
_LONGEST_RUN: Final = pulumi.CustomTimeouts(create="24h", update="24h")
# The provider awaits a Job's completion unless it is told not to, and fails when the Job fails.
_DO_NOT_WAIT: Final = {"pulumi.com/skipAwait": "true"}


@dataclass(frozen=True, kw_only=True)
class BatchJobArgs:
    """Arguments of `BatchJob`.

    Args:
        namespace: Namespace that it runs in.
        job_name: Start of the job's name; a digest of all it consists of follows.
        manifest: Job manifest with the holes `name`, `namespace`, `annotations`, `limit` and those of
            `values`.
        values: For the manifest's other holes.
        depends_on: What its pods need and the manifest names.
        wait: Whether `pulumi up` waits for the end of the job and fails if the job failed.
        max_hours: Hours after which the job is ended and fails, None for no limit.
    """

    namespace: Namespace
    job_name: str
    manifest: Path
    values: Values
    depends_on: Sequence[pulumi.Resource]
    wait: bool
    max_hours: int | None = None


class BatchJob(Component):
    """A job that runs once for what it consists of: its pod template cannot be edited.

    Attributes:
        job_name: Name of the Job.
    """

    group = "workload"

    def __init__(self, name: str, args: BatchJobArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, opts)
        values = {
            **args.values,
            "namespace": args.namespace.namespace,
            "limit": run_limit(args.max_hours),
        }
        content = Manifest(args.manifest, {**values, "name": args.job_name, "annotations": {}})
        self.job_name = hashed_name(args.job_name, _MAX_NAME, content.tree)
        options = args.namespace.running_in(self, args.depends_on)
        if args.wait:
            options.custom_timeouts = _LONGEST_RUN
        Manifest(
            args.manifest,
            {**values, "name": self.job_name, "annotations": {} if args.wait else _DO_NOT_WAIT},
        ).create(f"{name}-job", options)
        self._kubectl = args.namespace.kubectl
        self.register_outputs({"name": self.job_name})

    def commands(self) -> dict[str, pulumi.Input[str]]:
        """Commands that show the job and the log of its pods, by the name of the stack's output."""
        pods = f"--selector batch.kubernetes.io/job-name={self.job_name}"
        return {
            "watchJob": f"{self._kubectl} get job {self.job_name} --watch",
            "watchTraining": f"{self._kubectl} logs --follow --tail=-1 {pods}",
        }


@dataclass(frozen=True, kw_only=True)
class HeadlessServiceArgs:
    """Arguments of `HeadlessService`.

    Args:
        namespace: Namespace of the pods.
        service_name: Its name, and the label `app` of the pods.
    """

    namespace: Namespace
    service_name: str


class HeadlessService(Component):
    """A Service without an address of its own: each pod is POD.SERVICE, whichever node it is on.

    Attributes:
        service_name: Its name.
        access: What pods that look for each other must wait for.
    """

    group = "workload"

    def __init__(
        self, name: str, args: HeadlessServiceArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, opts)
        self.service_name = args.service_name
        values = {"name": args.service_name, "namespace": args.namespace.namespace}
        self.access: pulumi.Resource = Manifest(MANIFESTS / "headless-service.yaml", values).create(
            f"{name}-{args.service_name}-service", args.namespace.inside(self)
        )
        self.register_outputs({"name": self.service_name})
