"""Google's APIs on loopback: an HTTP server that follows their published descriptions.

A test plants answers and faults of methods. A project (`tests.operations.project`), if there is one, answers
the rest. Without one, a list is empty and everything else is not found.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Final

from cloud.discovery import Call, discovery
from cloud.record import PROJECT_NUMBER
from rehearsal.stand_ins.loopback import LoopbackServer, Request


@dataclass(frozen=True, kw_only=True)
class Fault(Exception):
    """How a method fails.

    Args:
        code: HTTP status of the answer.
        status: Google's name for it.
        message: For a person.
        body: Sent as it is in place of an error, for answers that are broken.
        cut: Whether the connection ends in the middle of the answer.
        hang: Whether no answer comes for as long as anybody may wait.
    """

    code: int = 200
    status: str = ""
    message: str = ""
    body: bytes | None = None
    cut: bool = False
    hang: bool = False

    def serve(self, request: Request, message: Any) -> None:
        """Answers a request with the fault, or with `message` if the fault has no body."""
        content = self.body if self.body is not None else json.dumps(message).encode()
        if self.hang:
            request.rfile.read(1)  # until the caller has given up
            request.close_connection = True
        elif self.cut:
            request.answer(self.code, content, {"Content-Length": str(len(content) + 100)})
            request.close_connection = True
        else:
            request.answer(self.code, content)


def disabled(service: str, consumer: str = PROJECT_NUMBER) -> Fault:
    """How every method of an API fails that is off in the project whose number or id is `consumer`."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "SERVICE_DISABLED"}
    error = {"code": 403, "message": "it is disabled", "status": "PERMISSION_DENIED"}
    metadata = {"service": service, "consumer": f"projects/{consumer}"}
    body = {"error": {**error, "details": [{**info, "metadata": metadata}]}}
    return Fault(code=403, body=json.dumps(body).encode())


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


class GoogleServer(LoopbackServer):
    """The server, for as long as the context.

    Attributes:
        calls: Every call that arrived and that its API has, in order.
        shown: By page, the Authorization headers of the requests for it.
        otherwise: Answers what nobody planted, given the API, the call and its body.
        address: The endpoint for `Clients`. `ADDRESS/compute.v1/` stands for Compute Engine.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.shown: defaultdict[str, list[str | None]] = defaultdict(list)
        self.otherwise: Callable[[str, Call, Any], Any] = _nothing
        self._planted: defaultdict[str, list[tuple[Mapping[str, str], Any]]] = defaultdict(list)
        self._faults: defaultdict[str, Iterator[Fault]] = defaultdict(lambda: iter(()))
        self._pages: dict[str, Page] = {}

    def plant(self, api: str, method: str, answer: Any, **address: str) -> None:
        """Says what a method answers.

        Args:
            api: Name and version, such as `compute.v1`.
            method: Id, such as `compute.regions.get`.
            answer: The answer, which is checked against its description, or a function of the call and its
                body.
            address: Parts of the path that the call must have, by the description's names (`region`,
                `projectsId`). The last planted answer counts first.
        """
        if not callable(answer):
            faults = list(discovery(api).faults(method, answer))
            assert not faults, f"no answer of {method}: {faults}"
        self._planted[_key(api, method)].insert(0, (address, answer))

    def plant_page(self, path: str, answer: Page) -> None:
        """Says what the address `ADDRESS/path` answers, for servers that are not Google's."""
        self._pages[path] = answer

    def fail(self, api: str, method: str, fault: Fault, times: int | None = None) -> None:
        """Lets a method fail: the next `times` calls, or all."""
        failing = repeat(fault) if times is None else repeat(fault, times)
        self._faults[_key(api, method)] = chain(failing, self._faults[_key(api, method)])

    def fail_all(self, fault: Fault) -> None:
        """Lets every method fail."""
        self._faults["*"] = repeat(fault)

    def called(self, method: str) -> list[Call]:
        """The calls of a method."""
        return [call for call in self.calls if call.method == method]

    def serve(self, request: Request) -> None:
        """Answers with a page, a fault, or JSON."""
        body = json.loads(request.body() or b"{}")
        path = request.path.lstrip("/").partition("?")[0]
        self.shown[path].append(request.headers["Authorization"])
        page = self._pages.get(path)
        if page and page.rejected and "Authorization" not in request.headers:
            page = page.rejected
        try:
            if page:
                request.answer_json(page.code, page.content, page.headers)
            else:
                request.answer_json(200, self._answer(request.command, request.path, body))
        except Fault as fault:
            error = {"code": fault.code, "message": fault.message, "status": fault.status}
            fault.serve(request, {"error": error})

    def _answer(self, verb: str, url: str, body: Any) -> Any:
        """The message for a request.

        Raises:
            Fault: When the answer is an error.
        """
        api, _, rest = url.lstrip("/").partition("/")
        try:
            call = discovery(api).call(verb, "/" + rest)
        except LookupError:
            raise NOT_FOUND from None
        if call is None:
            raise Fault(code=404, status="NOT_FOUND", message=f"no method for {verb} {url}")
        self.calls.append(call)
        problems = list(discovery(api).problems(call, body))
        if problems:
            raise Fault(code=400, status="INVALID_ARGUMENT", message="; ".join(problems))
        key = _key(api, call.method)
        fault = next(chain(self._faults[key], self._faults["*"]), None)
        if fault:
            raise fault
        for address, answer in self._planted[key]:
            if address.items() <= call.address.items():
                return answer(call, body) if callable(answer) else answer
        return self.otherwise(api, call, body)


def _key(api: str, method: str) -> str:
    assert method in discovery(api).methods, f"{api} has no method {method}"
    return f"{api}/{method}"


def _nothing(_api: str, call: Call, _body: Any) -> Any:
    if call.method.rpartition(".")[2] not in ("list", "aggregatedList", "search"):
        raise NOT_FOUND
    return {}
