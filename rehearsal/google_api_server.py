"""An HTTP server on loopback that plays APIs of Google, by their published descriptions."""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cloud.discovery import Call, discovery
from rehearsal.loopback import LoopbackServer, Request


@dataclass(frozen=True, kw_only=True)
class Failure(Exception):
    """An answer that is an error; with `after` the request has its effect, and only the answer is lost."""

    code: int
    status: str
    message: str
    after: bool = False


class GoogleApiServer(LoopbackServer):
    """Rejects what the APIs would not take, and answers as they would.

    Args:
        apis: Names and versions of the APIs, such as `run.v2`.
        methods: What answers a call with a body, by the method's id, `run.projects.locations.jobs.get`.

    Attributes:
        calls: The methods of every call that arrived, by the end of their ids, `jobs.get`.
    """

    def __init__(
        self, apis: Iterable[str], methods: Mapping[str, Callable[[Call, dict[str, Any]], dict[str, Any]]]
    ) -> None:
        self.calls: list[str] = []
        self._apis = [discovery(api) for api in apis]
        self._methods = methods
        self._failures: defaultdict[str, deque[Failure]] = defaultdict(deque)

    def fail(self, method: str, failure: Failure, times: int = 1) -> None:
        """Answers the next calls of a method, such as `jobs.get`, with an error."""
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
            if call and call.method in self._methods:
                if problems := list(api.problems(call, body)):
                    raise Failure(code=400, status="INVALID_ARGUMENT", message="; ".join(problems))
                answer = self._with_failures(call, body)
                if faults := list(api.faults(call.method, answer)):
                    raise AssertionError(f"the fake breaks the API: {faults}")
                return answer
        raise Failure(code=404, status="NOT_FOUND", message=f"no method here for {verb} {url}")

    def _with_failures(self, call: Call, body: Any) -> dict[str, Any]:
        method = ".".join(call.method.rsplit(".", 2)[1:])
        self.calls.append(method)
        waiting = self._failures[method]
        failure = waiting.popleft() if waiting else None
        if failure and not failure.after:
            raise failure
        answer = self._methods[call.method](call, body)
        if failure:
            raise failure
        return answer
