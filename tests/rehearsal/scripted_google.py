"""The rehearsal's fakes of Google's APIs, with what a test says before of how calls and builds end."""

import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cloud.discovery import Call, discovery
from rehearsal.fakes.cloud import FakeCloud
from rehearsal.fakes.cloud_build_server import CloudBuildServer
from rehearsal.fakes.cloud_run_server import CloudRunServer
from rehearsal.fakes.google_api_server import Failure, GoogleApiServer

TIME = "2026-01-01T00:00:00Z"
RUNNING = ("PENDING", "QUEUED", "WORKING")


@dataclass(frozen=True, kw_only=True)
class ErrorAnswer(Failure):
    """An answer that is an error.

    Args:
        after: Whether the request has its effect, so that only the answer is lost.
    """

    after: bool = False


class Failing(GoogleApiServer):
    """Fails on demand.

    Attributes:
        calls: The methods of every call that arrived, by the end of their ids, `jobs.get`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls: list[str] = []
        self._errors: defaultdict[str, deque[ErrorAnswer]] = defaultdict(deque)

    def fail(self, method: str, error: ErrorAnswer, times: int = 1) -> None:
        """Answers the next calls of a method, by the end of its id such as `jobs.get`, with an error."""
        self._errors[method].extend([error] * times)

    def carry_out(self, call: Call, body: Any) -> dict[str, Any]:
        method = ".".join(call.method.rsplit(".", 2)[1:])
        self.calls.append(method)
        waiting = self._errors[method]
        error = waiting.popleft() if waiting else None
        if error and not error.after:
            raise error
        answer = super().carry_out(call, body)
        if error:
            raise error
        return answer


@dataclass(frozen=True, kw_only=True)
class BuildLifecycle:
    """The lifecycle of a build.

    Args:
        states: Its status in every answer, beginning with the answer to the creation. The last one stays.
        exit_code: Exit code of its first step, if the step fails.
        detail: Explanation of the status.
        failure: Type of the failure, as `FailureInfo` names it.
        log: Lines of its log.
        digests: Whether the images are named in the results.
    """

    states: Sequence[str] = ("QUEUED", "SUCCESS")
    exit_code: int = 0
    detail: str = ""
    failure: str = ""
    log: Sequence[str] = ()
    digests: bool = True


class ScriptedCloudBuild(Failing, CloudBuildServer):
    """A Cloud Build whose builds end as a test says.

    Attributes:
        created: Set once there is a build.
        cancelled: Set once a build has been cancelled.
    """

    def __init__(self) -> None:
        super().__init__()
        builds = "cloudbuild.projects.locations.builds"
        self._apis.append(discovery("logging.v2"))
        self._methods |= {f"{builds}.list": self._list, f"{builds}.cancel": self._cancel}
        self._methods["logging.entries.list"] = self._log
        self.created = threading.Event()
        self.cancelled = threading.Event()
        self._said: deque[BuildLifecycle] = deque()
        self._lifecycles: dict[str, BuildLifecycle] = {}
        self._looks: defaultdict[str, int] = defaultdict(int)
        self._lock = threading.Lock()

    def next_build(self, lifecycle: BuildLifecycle) -> None:
        """Says what becomes of the next build that nothing has been said about."""
        self._said.append(lifecycle)

    def advance(self, build: dict[str, Any]) -> None:
        with self._lock:
            key = build["id"]
            if key not in self._lifecycles:
                self._lifecycles[key] = self._said.popleft() if self._said else BuildLifecycle()
                self.created.set()
            lifecycle = self._lifecycles[key]
            status = lifecycle.states[min(self._looks[key], len(lifecycle.states) - 1)]
            self._looks[key] += 1
            if status == "SUCCESS" and lifecycle.digests:
                build["status"] = "WORKING"
                super().advance(build)
            build["status"] = status
            if status not in (*RUNNING, "SUCCESS"):
                build.update(ending(build, lifecycle))

    def _list(self, call: Call, _body: Any) -> dict[str, Any]:
        tag = call.query.get("filter", "").removeprefix('tags="').removesuffix('"')
        return {"builds": [build for build in self.builds if tag in build.get("tags", ())]}

    def _cancel(self, call: Call, _body: Any) -> dict[str, Any]:
        build = self.build_of(call)
        with self._lock:
            if build["status"] not in RUNNING:
                raise Failure(code=400, status="FAILED_PRECONDITION", message="the build is not active")
            self._lifecycles[build["id"]] = BuildLifecycle(states=["CANCELLED"])
        self.cancelled.set()
        return self._shown(build)

    def _log(self, _call: Call, body: dict[str, Any]) -> dict[str, Any]:
        asked = (key for key in self._lifecycles if f'build_id="{key}"' in body["filter"])
        lines = [line for key in asked for line in self._lifecycles[key].log]
        newest = list(reversed(lines))[: body["pageSize"]]
        return {"entries": [{"textPayload": line, "timestamp": TIME} for line in newest]}


class SlowCloudRun(Failing, CloudRunServer):
    """A Cloud Run whose executions are still shown as running for some looks."""

    def __init__(self, cloud: FakeCloud) -> None:
        super().__init__(cloud)
        self.looks = 0

    def _get(self, call: Call, _body: Any) -> dict[str, Any]:
        if not self.looks:
            return super()._get(call, _body)
        self.looks -= 1
        return self._execution(call)


def ending(build: dict[str, Any], lifecycle: BuildLifecycle) -> dict[str, Any]:
    first, *others = build["steps"]
    failed = {**first, "status": build["status"], "exitCode": lifecycle.exit_code}
    result: dict[str, Any] = {"steps": [failed, *others], "statusDetail": lifecycle.detail}
    if lifecycle.failure:
        result["failureInfo"] = {"type": lifecycle.failure, "detail": lifecycle.detail}
    return result
