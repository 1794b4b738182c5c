"""A fake Cloud Build: an HTTP server on loopback that follows the published API. Every build succeeds."""

import copy
import hashlib
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from cloud.discovery import Call
from cloud.organisation import CONSTRAINTS
from cloud.services.cloudbuild import BUILD
from rehearsal.fakes.google_api_server import Failure, GoogleApiServer

_TIME: Final = "2026-01-01T00:00:00Z"


class CloudBuildServer(GoogleApiServer):
    """The server. It is a context.

    Args:
        constraints: Returns the names of the constraints that policies of the organisation enforce.

    Attributes:
        builds: All builds, as the last answers showed them.
    """

    def __init__(self, constraints: Callable[[], Iterable[str]] = tuple) -> None:
        self._constraints = constraints
        builds = "cloudbuild.projects.locations.builds"
        super().__init__(["cloudbuild.v1"], {f"{builds}.create": self._create, f"{builds}.get": self._get})
        self.builds: list[dict[str, Any]] = []

    @property
    def configuration(self) -> dict[str, str]:
        """Configuration values that send a program's builds to this server."""
        return {
            "gcp:cloudBuildCustomEndpoint": f"{self.address}/v1/",
            "gcp:loggingCustomEndpoint": f"{self.address}/v2/",
        }

    def build_of(self, call: Call) -> dict[str, Any]:
        """The build that a call names. Raises Failure if there is none."""
        for build in self.builds:
            if build["id"] == call.address["buildsId"]:
                return build
        raise Failure(code=404, status="NOT_FOUND", message="Requested entity was not found.")

    def advance(self, build: dict[str, Any]) -> None:
        """Changes a build before an answer: the first answer says queued, the next one succeeded."""
        if "status" in build:
            build["status"], build["results"] = "SUCCESS", {"images": [*map(_image, build["images"])]}
        else:
            build["status"] = "QUEUED"

    def _create(self, call: Call, body: dict[str, Any]) -> dict[str, Any]:
        project, location = call.address["projectsId"], call.address["locationsId"]
        pool = body.get("options", {}).get("pool", {}).get("name", "")
        for constraint in (CONSTRAINTS[name] for name in self._constraints()):
            if constraint.refuses(BUILD.type, {"pool": pool}):
                raise Failure(code=400, status="FAILED_PRECONDITION", message=constraint.message(project))
        where, build_id = f"projects/{project}/locations/{location}", str(uuid.uuid4())
        console = "https://console.cloud.google.com/cloud-build/builds"
        build = {
            **body,
            "id": build_id,
            "name": f"{where}/builds/{build_id}",
            "projectId": project,
            "createTime": _TIME,
            "logUrl": f"{console};region={location}/{build_id}?project={project}",
        }
        self.builds.append(build)
        shown = self._shown(build)
        return {"name": f"{where}/operations/{build_id}", "metadata": {"build": shown}, "done": False}

    def _get(self, call: Call, _body: Any) -> dict[str, Any]:
        return self._shown(self.build_of(call))

    def _shown(self, build: dict[str, Any]) -> dict[str, Any]:
        self.advance(build)
        return copy.deepcopy(build)


def _image(name: str) -> dict[str, str]:
    return {"name": name, "digest": f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"}
