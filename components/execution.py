"""One execution of a Cloud Run job as a resource: it runs to its end once, and again for another content."""

from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from components.clock import Clock
from components.once import OnceProvider


class ExecutionProvider(OnceProvider):
    """Runs the job."""

    servers: ClassVar = {"run": "gcp:cloudRunV2CustomEndpoint"}
    identity = ("job", "content")

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Runs the job and waits for the end.

        Raises:
            OnceError: When it failed; the message says why, and where its log is.
        """
        # Here and not above, so that a preview does not load Google's client library.
        from components.job_run import run

        execution = run(props["job"], self._endpoints["run"], self._credentials, Clock())
        return dynamic.CreateResult(execution, props)


class Execution(dynamic.Resource, module="cloudrun", name="Execution"):
    """An execution that has succeeded; its id is its name.

    Args:
        job: Id of the job, `projects/P/locations/L/jobs/J`.
        content: What the job says, or a digest of it.
    """

    def __init__(
        self,
        name: str,
        job: pulumi.Input[str],
        content: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(ExecutionProvider(), name, {"job": job, "content": content}, opts)
