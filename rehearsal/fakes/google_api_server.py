"""An HTTP server on loopback that imitates APIs of Google by their published descriptions."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cloud.discovery import Call, discovery
from rehearsal.stand_ins.loopback import LoopbackServer, Request


@dataclass(frozen=True, kw_only=True)
class Failure(Exception):
    """An answer that is an error."""

    code: int
    status: str
    message: str


class GoogleApiServer(LoopbackServer):
    """Rejects calls that the APIs would reject, and checks its own answers.

    Args:
        apis: Names and versions of the APIs, such as `run.v2`.
        methods: Functions that answer a call with a body, by the method's id, such as
            `run.projects.locations.jobs.get`.
    """

    def __init__(
        self, apis: Iterable[str], methods: Mapping[str, Callable[[Call, dict[str, Any]], dict[str, Any]]]
    ) -> None:
        self._apis = [discovery(api) for api in apis]
        self._methods = dict(methods)

    def serve(self, request: Request) -> None:
        """Answers with JSON."""
        body = json.loads(request.body() or b"{}")
        request.answer_json(*self.answer(request.command, request.path, body))

    def answer(self, verb: str, url: str, body: Any) -> tuple[int, dict[str, Any]]:
        """The HTTP status and the message that answer a request."""
        try:
            return 200, self._answer(verb, url, body)
        except Failure as failure:
            error = {"code": failure.code, "message": failure.message, "status": failure.status}
            return failure.code, {"error": error}

    def _answer(self, verb: str, url: str, body: Any) -> dict[str, Any]:
        for api in self._apis:
            call = api.call(verb, url)
            if call and call.method in self._methods:
                if problems := list(api.problems(call, body)):
                    raise Failure(code=400, status="INVALID_ARGUMENT", message="; ".join(problems))
                answer = self.carry_out(call, body)
                if faults := list(api.faults(call.method, answer)):
                    raise AssertionError(f"the fake breaks the API: {faults}")
                return answer
        raise Failure(code=404, status="NOT_FOUND", message=f"no method here for {verb} {url}")

    def carry_out(self, call: Call, body: Any) -> dict[str, Any]:
        """The answer to a valid call."""
        return self._methods[call.method](call, body)
