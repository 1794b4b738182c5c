"""A client of the API server, on `requests`.

It needs a handful of requests, such as server-side apply of any kind with strict field validation. To import
the official client takes longer than to send all of them.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import requests
import yaml
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from rehearsal.errors import RehearsalError

_T = TypeVar("_T")
Object = dict[str, Any]

# As the Kubernetes provider names itself to the API server.
FIELD_MANAGER: Final = "pulumi"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_TIMEOUT: Final = 30.0
# The API server asks to come back later, for example while it begins to serve a new CRD.
_BUSY: Final = Retry(
    total=None,
    connect=0,
    read=0,
    status=20,
    status_forcelist=[429],
    allowed_methods=None,
    backoff_factor=0.1,
    raise_on_status=False,
)
_PAUSE: Final = 0.1


class ApiError(RehearsalError):
    """The API server rejects a request; the text is its own.

    Args:
        code: HTTP status.
        reason: Machine-readable reason, such as `NotFound`.
        message: The text.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class WaitError(RehearsalError):
    """Something did not happen in time; the text says what."""


@dataclass(frozen=True)
class Kind:
    """A kind that the API server serves.

    Args:
        version: `apps/v1`.
        kind: `Deployment`.
        plural: `deployments`.
        namespaced: Whether its objects live in a namespace.
        verbs: What may be done with them.
    """

    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str]


class Api:
    """The API server, as an administrator.

    Args:
        kubeconfig: Path of the administrator's kubeconfig.
    """

    def __init__(self, kubeconfig: Path) -> None:
        tree = yaml.safe_load(kubeconfig.read_text())
        cluster, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
        self._server = cluster["server"]
        self._authority = cluster["certificate-authority"]
        self._client = (user["client-certificate"], user["client-key"])
        self._sessions = threading.local()
        self._kinds: dict[tuple[str, str], Kind] = {}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content: str = "application/json",
        **query: str,
    ) -> Object:
        """Sends a request and returns the object in the answer.

        Args:
            method: `GET` and the like.
            path: Such as `/api/v1/nodes`.
            body: What is sent, as JSON.
            content: Media type of the body.
            query: Parameters of the query.

        Raises:
            ApiError: For an answer that is not a success.
        """
        answer = self._session.request(
            method,
            self._server + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content},
            timeout=_TIMEOUT,
        )
        if not answer.ok:
            raise _error(answer)
        return answer.json()

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return self._session.get(f"{self._server}/readyz", timeout=_TIMEOUT).ok
        except requests.ConnectionError:
            return False

    def kind(self, version: str, kind: str) -> Kind:
        """How the API server serves a kind.

        Raises:
            ApiError: When it does not serve the kind.
        """
        found = self._kinds.get((version, kind))
        if found is None:
            try:
                self._kinds |= {(each.version, each.kind): each for each in self._served(version)}
            except ApiError as error:
                if error.code != 404:
                    raise
            found = self._kinds.get((version, kind))
        if found is None:
            raise ApiError(404, "NotFound", f'no matches for kind "{kind}" in version "{version}"')
        return found

    def apply(self, tree: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Creates or updates an object by server-side apply with strict field validation."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "force": "true"}
        if dry_run:
            query["dryRun"] = "All"
        return self.request("PATCH", self.path_of(tree), tree, content=_APPLY, **query)

    def create(self, tree: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Creates an object with strict field validation."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return self.request("POST", self.path_of(tree, collection=True), tree, **query)

    def patch(self, tree: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        """Merges a change into an object, or into its `status`."""
        path = self.path_of(tree) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, change, content=_MERGE)

    def get(self, tree: Mapping[str, Any]) -> Object | None:
        """The object of the kind and name of `tree`, None when there is none."""
        try:
            return self.request("GET", self.path_of(tree))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, version: str, kind: str, namespace: str = "", labels: str = "") -> list[Object]:
        """The objects of a kind.

        Args:
            version: `apps/v1`.
            kind: `Deployment`.
            namespace: Of this namespace; by default of all.
            labels: With labels that match this selector.
        """
        tree = {"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace}}
        path = self.path_of(tree, collection=True) if namespace else self._root(self.kind(version, kind))
        query = {"labelSelector": labels} if labels else {}
        items = self.request("GET", path, **query)["items"]
        return [{"apiVersion": version, "kind": kind, **item} for item in items]

    def delete(self, tree: Mapping[str, Any], propagation: str = "Foreground") -> None:
        """Begins to delete an object, if it is there.

        Args:
            tree: Has the kind and the name of the object.
            propagation: `Foreground`: what the object owns is deleted before it, as the Kubernetes provider
                asks for; `Background`: the object is deleted at once.
        """
        options = {"propagationPolicy": propagation}
        try:
            self.request("DELETE", self.path_of(tree), options)
        except ApiError as error:
            if error.code != 404:
                raise

    def token(self, account: Mapping[str, Any]) -> str:
        """A token that acts as a service account, for a day."""
        wanted = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 86400},
        }
        return self.request("POST", f"{self.path_of(account)}/token", wanted)["status"]["token"]

    def served_kinds(self) -> Iterator[Kind]:
        """All kinds whose objects can be listed, each in the version that the API server prefers."""
        groups = self.request("GET", "/apis")["groups"]
        for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
            yield from (kind for kind in self._served(version) if "list" in kind.verbs)

    def path_of(self, tree: Mapping[str, Any], *, collection: bool = False) -> str:
        """The path of an object, or of the collection that it belongs to."""
        kind = self.kind(tree["apiVersion"], tree["kind"])
        path = _group(kind.version)
        if kind.namespaced:
            path += f"/namespaces/{tree['metadata'].get('namespace') or 'default'}"
        return f"{path}/{kind.plural}" + ("" if collection else f"/{tree['metadata']['name']}")

    @property
    def _session(self) -> requests.Session:
        """The session of the calling thread: sessions are not made for several threads."""
        session = getattr(self._sessions, "session", None)
        if session is None:
            session = self._sessions.session = requests.Session()
            session.trust_env = False  # no proxy between here and the loopback interface
            session.mount("https://", HTTPAdapter(max_retries=_BUSY))
            session.verify = self._authority
            session.cert = self._client
        return session

    def _served(self, version: str) -> Iterator[Kind]:
        for each in self.request("GET", _group(version))["resources"]:
            if "/" not in each["name"]:
                verbs = frozenset(each["verbs"])
                yield Kind(version, each["kind"], each["name"], each["namespaced"], verbs)

    def _root(self, kind: Kind) -> str:
        return f"{_group(kind.version)}/{kind.plural}"


def until(what: Callable[[], str], ask: Callable[[], _T], timeout: float) -> _T:
    """Calls a function again and again until its result is true, and returns that.

    Args:
        what: Describes what is waited for, and how far it is; for the message.
        ask: The function.
        timeout: Seconds.

    Raises:
        WaitError: When the result is not true in time.
    """
    deadline = time.monotonic() + timeout
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise WaitError(f"timed out after {timeout:.0f} s waiting for {what()}")
        time.sleep(_PAUSE)
    return answer


def condition(tree: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    """A condition of an object's status; empty when it has none of that type."""
    conditions = ((tree or {}).get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == name), {})


def is_true(tree: Mapping[str, Any] | None, name: str) -> bool:
    """Whether a condition of an object's status holds."""
    return condition(tree, name).get("status") == "True"


def _group(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _error(answer: requests.Response) -> ApiError:
    try:
        status = answer.json()
    except ValueError:
        status = {}
    reason, message = str(status.get("reason", "")), str(status.get("message") or answer.text.strip())
    return ApiError(answer.status_code, reason, message)
