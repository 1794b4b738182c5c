"""A fake Cloud Build: an HTTP server on loopback that follows the published API.

It runs nothing: every build succeeds, unless a test has said before what is to become of it.
"""

import copy
import hashlib
import json
import threading
import uuid
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from cloud.discovery import Call, discovery
from rehearsal.loopback import LoopbackServer, Request

_METADATA: Final = "type.googleapis.com/google.devtools.cloudbuild.v1.BuildOperationMetadata"
_TIME: Final = "2026-01-01T00:00:00Z"
_RUNNING: Final = ("PENDING", "QUEUED", "WORKING")

Method = Literal["create", "get", "list", "cancel", "log"]
_METHODS: Final[dict[str, Method]] = {
    "cloudbuild.projects.locations.builds.create": "create",
    "cloudbuild.projects.locations.builds.get": "get",
    "cloudbuild.projects.locations.builds.list": "list",
    "cloudbuild.projects.locations.builds.cancel": "cancel",
    "logging.entries.list": "log",
}


@dataclass(frozen=True, kw_only=True)
class Failure(Exception):
    """An answer that is an error; with `after` the request has its effect, and only the answer is lost."""

    code: int
    status: str
    message: str
    after: bool = False


@dataclass(frozen=True, kw_only=True)
class BuildLifecycle:
    """What becomes of a build.

    Args:
        states: Its status at each look, the first as the creation is answered; the last one stays.
        exit_code: Of its first step, where that fails.
        detail: What the status is explained with.
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


@dataclass
class _FakeBuild:
    """A build as the API shows it, what becomes of it, and how often it has been shown."""

    build: dict[str, Any]
    lifecycle: BuildLifecycle
    looks: int = 0


class CloudBuildServer(LoopbackServer):
    """The server, for as long as the context.

    Attributes:
        calls: Every call that arrived, by its short name.
        created: Set once there is a build.
        cancelled: Set once a build has been cancelled.
    """

    def __init__(self) -> None:
        self.calls: list[Method] = []
        self.created = threading.Event()
        self.cancelled = threading.Event()
        self._builds: dict[str, _FakeBuild] = {}
        self._lock = threading.Lock()
        self._lifecycles: deque[BuildLifecycle] = deque()
        self._failures: defaultdict[Method, deque[Failure]] = defaultdict(deque)
        self._apis = [discovery("cloudbuild.v1"), discovery("logging.v2")]
        self._methods = {
            "create": self._create,
            "get": self._get,
            "list": self._list,
            "cancel": self._cancel,
            "log": self._log,
        }

    @property
    def environment(self) -> dict[str, str]:
        """With these variables a program's builds come here."""
        return {
            "GOOGLE_CLOUD_BUILD_CUSTOM_ENDPOINT": f"{self.address}/v1/",
            "GOOGLE_LOGGING_CUSTOM_ENDPOINT": f"{self.address}/v2/",
        }

    @property
    def builds(self) -> list[dict[str, Any]]:
        """All builds as they were last shown."""
        return [fake.build for fake in self._builds.values()]

    def next_build(self, lifecycle: BuildLifecycle) -> None:
        """Says what becomes of the next build that nothing has been said about."""
        self._lifecycles.append(lifecycle)

    def fail(self, method: Method, failure: Failure, times: int = 1) -> None:
        """Answers the next calls of a method with an error."""
        self._failures[method].extend([failure] * times)

    def serve(self, request: Request) -> None:
        """Answers with JSON."""
        body = json.loads(request.body() or b"{}")
        request.answer_json(*self.answer(request.command, request.path, body))

    def answer(self, verb: str, url: str, body: Any) -> tuple[int, dict[str, Any]]:
        """HTTP status and message for a request."""
        try:
            return 200, self._answer(verb, url, body)
        except Failure as failure:
            error = {"code": failure.code, "message": failure.message, "status": failure.status}
            return failure.code, {"error": error}

    def _answer(self, verb: str, url: str, body: Any) -> dict[str, Any]:
        for api in self._apis:
            call = api.call(verb, url)
            method = _METHODS.get(call.method) if call else None
            if call and method:
                self.calls.append(method)
                problems = list(api.problems(call, body))
                if problems:
                    raise Failure(code=400, status="INVALID_ARGUMENT", message="; ".join(problems))
                answer = self._with_failures(method, call, body)
                faults = list(api.faults(call.method, answer))
                if faults:
                    raise AssertionError(f"the fake breaks the API: {faults}")
                return answer
        raise Failure(code=404, status="NOT_FOUND", message=f"no method here for {verb} {url}")

    def _with_failures(self, method: Method, call: Call, body: Any) -> dict[str, Any]:
        waiting = self._failures[method]
        failure = waiting.popleft() if waiting else None
        if failure and not failure.after:
            raise failure
        answer = self._methods[method](call, body)
        if failure:
            raise failure
        return answer

    def _create(self, call: Call, body: dict[str, Any]) -> dict[str, Any]:
        project, location = call.address["projectsId"], call.address["locationsId"]
        where, build_id = f"projects/{project}/locations/{location}", str(uuid.uuid4())
        console = "https://console.cloud.google.com/cloud-build/builds"
        lifecycle = self._lifecycles.popleft() if self._lifecycles else BuildLifecycle()
        build = {
            **body,
            "id": build_id,
            "name": f"{where}/builds/{build_id}",
            "projectId": project,
            "createTime": _TIME,
            "logUrl": f"{console};region={location}/{build_id}?project={project}",
        }
        fake = self._builds[build_id] = _FakeBuild(build=build, lifecycle=lifecycle)
        metadata = {"@type": _METADATA, "build": self._shown(fake)}
        self.created.set()
        return {"name": f"{where}/operations/{build_id}", "metadata": metadata, "done": False}

    def _get(self, call: Call, _body: Any) -> dict[str, Any]:
        return self._shown(self._found(call))

    def _list(self, call: Call, _body: Any) -> dict[str, Any]:
        tag = call.query.get("filter", "").removeprefix('tags="').removesuffix('"')
        found = [fake.build for fake in self._builds.values() if tag in fake.build.get("tags", ())]
        return {"builds": found}

    def _cancel(self, call: Call, _body: Any) -> dict[str, Any]:
        fake = self._found(call)
        with self._lock:
            if fake.build["status"] not in _RUNNING:
                raise Failure(code=400, status="FAILED_PRECONDITION", message="the build is not active")
            fake.lifecycle = BuildLifecycle(states=["CANCELLED"])
        self.cancelled.set()
        return self._shown(fake)

    def _log(self, _call: Call, body: dict[str, Any]) -> dict[str, Any]:
        lines = [
            line
            for build_id, fake in self._builds.items()
            if f'build_id="{build_id}"' in body["filter"]
            for line in fake.lifecycle.log
        ]
        newest = list(reversed(lines))[: body["pageSize"]]
        return {"entries": [{"textPayload": line, "timestamp": _TIME} for line in newest]}

    def _found(self, call: Call) -> _FakeBuild:
        fake = self._builds.get(call.address["buildsId"])
        if fake is None:
            raise Failure(code=404, status="NOT_FOUND", message="Requested entity was not found.")
        return fake

    def _shown(self, fake: _FakeBuild) -> dict[str, Any]:
        with self._lock:
            lifecycle, build = fake.lifecycle, fake.build
            build["status"] = lifecycle.states[min(fake.looks, len(lifecycle.states) - 1)]
            fake.looks += 1
            if build["status"] == "SUCCESS" and lifecycle.digests:
                build["results"] = {"images": [_image(name) for name in build["images"]]}
            if build["status"] not in (*_RUNNING, "SUCCESS"):
                build.update(_ending(build, lifecycle))
            return copy.deepcopy(build)


def _ending(build: dict[str, Any], lifecycle: BuildLifecycle) -> dict[str, Any]:
    first, *others = build["steps"]
    failed = {**first, "status": build["status"], "exitCode": lifecycle.exit_code}
    ending: dict[str, Any] = {"steps": [failed, *others], "statusDetail": lifecycle.detail}
    if lifecycle.failure:
        ending["failureInfo"] = {"type": lifecycle.failure, "detail": lifecycle.detail}
    return ending


def _image(name: str) -> dict[str, str]:
    return {"name": name, "digest": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"}
