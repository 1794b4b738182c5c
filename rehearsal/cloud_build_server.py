"""A fake Cloud Build: an HTTP server on loopback that follows the published API.

It runs nothing: every build succeeds, unless a test has said before what is to become of it.
"""

import copy
import hashlib
import threading
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cloud.discovery import Call
from rehearsal.google_api_server import Failure, GoogleApiServer

_TIME: Final = "2026-01-01T00:00:00Z"
_RUNNING: Final = ("PENDING", "QUEUED", "WORKING")


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


class CloudBuildServer(GoogleApiServer):
    """The server, for as long as the context.

    Attributes:
        created: Set once there is a build.
        cancelled: Set once a build has been cancelled.
    """

    def __init__(self) -> None:
        super().__init__(
            ("cloudbuild.v1", "logging.v2"),
            {
                "cloudbuild.projects.locations.builds.create": self._create,
                "cloudbuild.projects.locations.builds.get": self._get,
                "cloudbuild.projects.locations.builds.list": self._list,
                "cloudbuild.projects.locations.builds.cancel": self._cancel,
                "logging.entries.list": self._log,
            },
        )
        self.created = threading.Event()
        self.cancelled = threading.Event()
        self._builds: dict[str, _FakeBuild] = {}
        self._lock = threading.Lock()
        self._lifecycles: deque[BuildLifecycle] = deque()

    @property
    def configuration(self) -> dict[str, str]:
        """With these values a program's builds come here."""
        return {
            "gcp:cloudBuildCustomEndpoint": f"{self.address}/v1/",
            "gcp:loggingCustomEndpoint": f"{self.address}/v2/",
        }

    @property
    def builds(self) -> list[dict[str, Any]]:
        """All builds as they were last shown."""
        return [fake.build for fake in self._builds.values()]

    def next_build(self, lifecycle: BuildLifecycle) -> None:
        """Says what becomes of the next build that nothing has been said about."""
        self._lifecycles.append(lifecycle)

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
        shown = self._shown(fake)
        self.created.set()
        return {"name": f"{where}/operations/{build_id}", "metadata": {"build": shown}, "done": False}

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
