"""An execution of a Cloud Run job as a resource: `pulumi up` runs the job once per content of the job."""

from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from components.base.clock import Clock
from components.base.once import OnceProvider


class ExecutionProvider(OnceProvider):
    """Runs a Cloud Run job when the resource is created."""

    servers: ClassVar = {"run": "gcp:cloudRunV2CustomEndpoint"}
    identity = ("job", "content")

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Runs the job and waits for its end.

        Raises:
            OnceError: If the job failed. The message has the reason and the address of the log.
        """
        # Imported here, so that a preview does not load Google's client library.
        from components.execution.job import run

        execution = run(props["job"], self._endpoints["run"], self._credentials, Clock())
        return dynamic.CreateResult(execution, props)


class Execution(dynamic.Resource, module="cloudrun", name="Execution"):
    """A successful execution. The resource's id is the name of the execution.

    Args:
        job: Id of the job, `projects/P/locations/L/jobs/J`.
        content: The job's template or a digest of it. Another content runs the job again.
    """

    def __init__(
        self,
        name: str,
        job: pulumi.Input[str],
        content: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(ExecutionProvider(), name, {"job": job, "content": content}, opts)
