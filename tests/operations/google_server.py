"""Google's APIs on loopback: an HTTP server that follows their published descriptions.

It knows no project. A test plants what a method answers, and how a method fails; a list that nobody
planted is empty, anything else that nobody planted is not found.
"""

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cloud.discovery import Call, discovery
from rehearsal.loopback import LoopbackServer, Request

Handler = Callable[[Call, Any], Any]
_LISTS: Final = ("list", "aggregatedList", "search")


@dataclass(frozen=True, kw_only=True)
class Fault(Exception):
    """How a method fails.

    Args:
        code: HTTP status of the answer.
        status: Google's name for it.
        message: For a person.
        body: Sent as it is in place of an error, for answers that are broken.
        cut: Whether the connection ends in the middle of the answer.
        hang: Whether no answer comes until the server stops.
    """

    code: int = 200
    status: str = ""
    message: str = ""
    body: bytes | None = None
    cut: bool = False
    hang: bool = False

    def serve(self, server: LoopbackServer, request: Request, message: Any) -> None:
        """Answers a request with the fault; `message` where it has no body of its own."""
        content = self.body if self.body is not None else json.dumps(message).encode()
        if self.hang:
            server.hold(request)
        elif self.cut:
            request.answer_half(self.code, content)
        else:
            request.answer(self.code, content)


NOT_FOUND: Final = Fault(code=404, status="NOT_FOUND", message="Requested entity was not found.")
REFUSED: Final = Fault(code=403, status="PERMISSION_DENIED", message="Permission denied on the resource.")
EXHAUSTED: Final = Fault(
    code=429, status="RESOURCE_EXHAUSTED", message="Quota exceeded for quota metric 'Read requests'."
)
UNAVAILABLE: Final = Fault(code=503, status="UNAVAILABLE", message="The service is currently unavailable.")
A_PAGE: Final = Fault(body=b"<html>Sign in to the proxy</html>")
HALF: Final = Fault(body=b'{"name": "half of an ans')
CUT: Final = Fault(body=b'{"name": "half of an ans', cut=True)
SLOW: Final = Fault(hang=True)


@dataclass(frozen=True, kw_only=True)
class Page:
    """What an address outside Google's APIs answers.

    Args:
        code: HTTP status.
        content: JSON.
        headers: Headers of the answer.
        rejected: What a request without an Authorization header gets instead.
    """

    code: int = 200
    content: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    rejected: "Page | None" = None


@dataclass(frozen=True, kw_only=True)
class _Planted:
    address: Mapping[str, str]
    answer: Any


class GoogleServer(LoopbackServer):
    """The server, for as long as the context.

    Attributes:
        calls: Every call that arrived and that its API has, in order.
        address: To give to `Clients`; `ADDRESS/compute.v1/` stands for Compute Engine.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._planted: defaultdict[str, list[_Planted]] = defaultdict(list)
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._lasting: dict[str, Fault] = {}
        self._pages: dict[str, Page] = {}

    def plant(self, api: str, method: str, answer: Any, **address: str) -> None:
        """Says what a method answers.

        Args:
            api: Name and version, such as `compute.v1`.
            method: Id, such as `compute.regions.get`.
            answer: The answer, checked against its description; or a function of the call and its body.
            address: Parts of the path that the call must have, by the description's names (`region`,
                `projectsId`); what is planted last is looked at first.
        """
        assert method in discovery(api).methods, f"{api} has no method {method}"
        if not callable(answer):
            faults = list(discovery(api).faults(method, answer))
            assert not faults, f"no answer of {method}: {faults}"
        self._planted[f"{api}/{method}"].insert(0, _Planted(address=address, answer=answer))

    def plant_page(self, path: str, answer: Page) -> None:
        """Says what the address `ADDRESS/path` answers, for servers that are not Google's."""
        self._pages[path] = answer

    def fail(self, api: str, method: str, fault: Fault, times: int | None = None) -> None:
        """Lets a method fail: the next `times` calls, or all."""
        assert method in discovery(api).methods, f"{api} has no method {method}"
        if times is None:
            self._lasting[f"{api}/{method}"] = fault
        else:
            self._faults[f"{api}/{method}"].extend([fault] * times)

    def fail_all(self, fault: Fault) -> None:
        """Lets every method fail."""
        self._lasting["*"] = fault

    def called(self, method: str) -> list[Call]:
        """The calls of a method."""
        return [call for call in self.calls if call.method == method]

    def serve(self, request: Request) -> None:
        """Answers with a page, a fault, or JSON."""
        sent = request.body()
        page = self.page(request.path, "Authorization" in request.headers)
        if page:
            request.answer_json(page.code, page.content, page.headers)
            return
        fault, message = self.respond(request.command, request.path, json.loads(sent or b"{}"))
        if not fault:
            request.answer_json(200, message)
            return
        error = {"code": fault.code, "message": fault.message, "status": fault.status}
        fault.serve(self, request, {"error": error})

    def respond(self, verb: str, url: str, body: Any) -> tuple[Fault | None, Any]:
        """A fault or the message for a request."""
        api, _, rest = url.lstrip("/").partition("/")
        try:
            call = discovery(api).call(verb, "/" + rest)
        except LookupError:
            return NOT_FOUND, None
        if call is None:
            return Fault(code=404, status="NOT_FOUND", message=f"no method for {verb} {url}"), None
        self.calls.append(call)
        key = f"{api}/{call.method}"
        problems = list(discovery(api).problems(call, body))
        if problems:
            return Fault(code=400, status="INVALID_ARGUMENT", message="; ".join(problems)), None
        waiting = self._faults[key]
        fault = waiting.popleft() if waiting else self._lasting.get(key) or self._lasting.get("*")
        if fault:
            return fault, None
        return self._answer(key, call, body)

    def page(self, url: str, authorized: bool) -> Page | None:
        """The page at an address, None where none was planted."""
        found = self._pages.get(url.lstrip("/").partition("?")[0])
        return found.rejected if found and found.rejected and not authorized else found

    def _answer(self, key: str, call: Call, body: Any) -> tuple[Fault | None, Any]:
        for planted in self._planted[key]:
            if planted.address.items() <= call.address.items():
                try:
                    answer = planted.answer(call, body) if callable(planted.answer) else planted.answer
                except Fault as fault:
                    return fault, None
                return None, answer
        return (None, {}) if call.method.rpartition(".")[2] in _LISTS else (NOT_FOUND, None)
