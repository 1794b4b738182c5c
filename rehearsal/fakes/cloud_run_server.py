"""A fake Cloud Run: the part of the API that the program uses to run jobs."""

import uuid
from collections.abc import Callable
from typing import Any, Final

from cloud.discovery import Call
from rehearsal.fakes.cloud import FakeCloud
from rehearsal.fakes.google_api_server import GoogleApiServer

_TIME: Final = "2026-01-01T00:00:00Z"
_JOB: Final = "projects/{projectsId}/locations/{locationsId}/jobs/{jobsId}"


class CloudRunServer(GoogleApiServer):
    """The server. It is a context.

    Attributes:
        on_run: Runs an execution and calls `end`. With None nothing runs, and executions end by
            `FakeCloud.outcome`.
        on_cancel: Ends an execution, and returns when it has ended.
        executions: All executions by name, as the answers show them.
    """

    def __init__(self, cloud: FakeCloud) -> None:
        jobs = "run.projects.locations.jobs"
        methods = {
            f"{jobs}.get": self._get_job,
            f"{jobs}.run": self._run,
            f"{jobs}.executions.get": self._get,
            f"{jobs}.executions.cancel": self._cancel,
        }
        super().__init__(["run.v2"], methods)
        self._cloud = cloud
        self.on_run: Callable[[str], None] | None = None
        self.on_cancel: Callable[[str], None] = lambda _execution: None
        self.executions: dict[str, dict[str, Any]] = {}

    @property
    def configuration(self) -> dict[str, str]:
        """The configuration value that sends a program's executions to this server."""
        return {"gcp:cloudRunV2CustomEndpoint": f"{self.address}/v2/"}

    def _get_job(self, call: Call, _body: Any) -> dict[str, Any]:
        job: dict[str, Any] = {"name": _JOB.format_map(call.address)}
        for name, execution in self.executions.items():
            (ended,) = execution.get("conditions", [{"state": "CONDITION_RUNNING"}])
            status = ended["state"].replace("CONDITION", "EXECUTION")
            job["latestCreatedExecution"] = {"name": name, "completionStatus": status}
        return job

    def _run(self, call: Call, _body: Any) -> dict[str, Any]:
        short = f"{call.address['jobsId']}-{uuid.uuid4().hex[:5]}"
        name = f"{_JOB.format_map(call.address)}/executions/{short}"
        log = f"https://console.cloud.google.com/run/jobs/executions/details/{short}/logs"
        self.executions[name] = {"name": name, "createTime": _TIME, "logUri": log}
        if self.on_run:
            self.on_run(name)
        return {"name": f"operations/{short}", "metadata": self.executions[name], "done": False}

    def _get(self, call: Call, _body: Any) -> dict[str, Any]:
        execution = self._execution(call)
        if "completionTime" not in execution and not self.on_run:
            self._cloud.run_job()
            has_failed = self._cloud.outcome == "Failed"
            self.end(execution["name"], "Task failed with exit code 1" if has_failed else "")
        return execution

    def _cancel(self, call: Call, _body: Any) -> dict[str, Any]:
        name = self._execution(call)["name"]
        self.on_cancel(name)
        self.end(name, "cancelled")
        return {"name": "operations/cancel", "done": True}

    def end(self, name: str, failure: str) -> None:
        """Notes how an execution ended, unless it had ended before. An empty failure is success."""
        state = "CONDITION_FAILED" if failure else "CONDITION_SUCCEEDED"
        if "completionTime" not in (execution := self.executions[name]):
            execution["conditions"] = [{"type": "Completed", "state": state, "message": failure}]
            execution["completionTime"] = _TIME

    def _execution(self, call: Call) -> dict[str, Any]:
        return self.executions[f"{_JOB}/executions/{{executionsId}}".format_map(call.address)]
