"""A client of the API server, over Kubernetes' own dynamic client."""

import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from kubernetes import client, config
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import DynamicApiError, ResourceNotFoundError
from kubernetes.dynamic.resource import Resource, ResourceList
from urllib3 import Retry
from urllib3.exceptions import HTTPError

from rehearsal.errors import RehearsalError

_T = TypeVar("_T")
Object = dict[str, Any]

# The name that the Kubernetes provider gives itself at the API server.
FIELD_MANAGER: Final = "pulumi"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_TIMEOUT: Final = 30.0
# The API server asks to come back later (429 and when), for example while it begins to serve a new CRD.
_BUSY: Final = Retry(20, connect=0, read=0, allowed_methods=None, raise_on_status=False)
_PAUSE: Final = 0.1


class ApiError(RehearsalError):
    """The API server rejects a request.

    Args:
        code: HTTP status.
        message: The API server's own message.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class WaitError(RehearsalError):
    """A wait has timed out. The message says for what."""


class Api:
    """The API server.

    A method raises ApiError if the server rejects the request, and ConnectionError if there is no server.

    Args:
        kubeconfig: Path of the kubeconfig, which names the account.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._discovery = threading.Lock()

    @cached_property
    def _client(self) -> DynamicClient:
        """The client. It asks for the server's version, so it is created when the server answers."""
        configuration = client.Configuration(retries=_BUSY, no_proxy="127.0.0.1")
        config.load_kube_config(str(self._kubeconfig), client_configuration=configuration)
        kinds = self._kubeconfig.with_suffix(".kinds.json")
        return DynamicClient(client.ApiClient(configuration), cache_file=str(kinds))

    def request(self, method: str, path: str, body: Any = None, **options: Any) -> Object:
        """Sends a request and returns the object in the answer.

        Args:
            method: Such as `GET`.
            path: Such as `/api/v1/nodes`.
            body: The content, sent as JSON.
            options: Options of `DynamicClient.request`.
        """
        with _translated():
            return self._client.request(
                method, path, body, serializer=lambda _, tree: tree, _request_timeout=_TIMEOUT, **options
            )

    def is_ready(self) -> bool:
        """Whether the API server says that it is ready."""
        try:
            return bool(self.request("GET", "/readyz"))
        except (ApiError, ConnectionError):
            return False

    def kind(self, version: str, kind: str) -> Resource:
        """The API server's description of a kind, such as `Deployment` of `apps/v1`."""
        prefix = "apis" if "/" in version else "api"
        try:
            with _translated(), self._discovery:
                return self._client.resources.get(prefix=prefix, api_version=version, kind=kind)
        except ResourceNotFoundError:
            raise ApiError(404, f'no matches for kind "{kind}" in version "{version}"') from None

    def apply(self, tree: Mapping[str, Any], *, dry_run: bool = False, force: bool = True) -> Object:
        """Creates or updates an object by server-side apply with strict field validation.

        Args:
            tree: The object.
            dry_run: Whether the API server only checks the request.
            force: Whether to take over fields of other writers, which are a conflict otherwise.
        """
        options = {"content_type": _APPLY, "force_conflicts": force, "dry_run": "All" if dry_run else None}
        try:
            return self.request("PATCH", self.path_of(tree), dict(tree), **options, **_strictly())
        except ApiError as error:
            name = f"{tree['kind']} {tree['metadata'].get('name', '')}"
            raise ApiError(error.code, f"the API server rejects {name}: {error}") from None

    def create(self, tree: Mapping[str, Any]) -> Object:
        """Creates an object with strict field validation."""
        return self.request("POST", self.path_of(tree, collection=True), dict(tree), **_strictly())

    def patch(self, tree: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        """Merges a change into an object, or into its `status`."""
        path = self.path_of(tree) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, dict(change), content_type=_MERGE)

    def get(self, tree: Mapping[str, Any]) -> Object | None:
        """The object with the kind and name of `tree`, None if it does not exist."""
        try:
            return self.request("GET", self.path_of(tree))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(
        self, version: str, kind: str, namespace: str = "", labels: Mapping[str, str] | None = None
    ) -> list[Object]:
        """The objects of a kind.

        Args:
            version: Such as `apps/v1`.
            kind: Such as `Deployment`.
            namespace: Only objects in this namespace, by default in all.
            labels: Only objects with these labels.
        """
        path = self.kind(version, kind).path(namespace=namespace)
        selector = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        items = self.request("GET", path, label_selector=selector)["items"]
        return [{"apiVersion": version, "kind": kind, **item} for item in items]

    def delete(self, tree: Mapping[str, Any], *, ended: bool = False) -> None:
        """Starts the deletion of an object and of the objects that it owns, if it exists.

        Args:
            tree: The object.
            ended: Whether it is a pod that has ended, which is deleted at once.
        """
        body = None
        if ended:
            body = {"gracePeriodSeconds": 0, "preconditions": {"uid": tree["metadata"]["uid"]}}
        try:
            self.request("DELETE", self.path_of(tree), body, propagation_policy="Foreground")
        except ApiError as error:
            if error.code != 404 and not (ended and error.code == 409):
                raise

    def token(self, account: Mapping[str, Any]) -> str:
        """A token of a service account, valid for a day."""
        body = {"spec": {"expirationSeconds": 24 * 60 * 60}}
        return self.request("POST", f"{self.path_of(account)}/token", body)["status"]["token"]

    def served_kinds(self) -> Iterator[tuple[str, str]]:
        """All kinds whose objects can be listed, after their preferred versions."""
        with _translated(), self._discovery:
            self._client.resources.invalidate_cache()
            kinds = [kind for same_name in self._client.resources for kind in same_name]
        for kind in kinds:
            if kind.preferred and not isinstance(kind, ResourceList) and "list" in kind.verbs:
                yield kind.group_version, str(kind.kind)

    def path_of(self, tree: Mapping[str, Any], *, collection: bool = False) -> str:
        """The path of an object, or of its collection."""
        metadata = tree["metadata"]
        name = None if collection else metadata["name"]
        kind = self.kind(tree["apiVersion"], tree["kind"])
        return kind.path(name=name, namespace=metadata.get("namespace") or "default")


def until(what: Callable[[], str], ask: Callable[[], _T], timeout: float = 300.0) -> _T:
    """Calls a function again and again until its result is true, and returns the result.

    Args:
        what: Describes the event and its progress, for the message.
        ask: The function.
        timeout: Seconds. The control plane's own work takes one or two, and more on a busy machine.

    Raises:
        WaitError: If the result is not true in time.
    """
    deadline = time.monotonic() + timeout
    while not (answer := ask()):
        if time.monotonic() > deadline:
            raise WaitError(f"timed out after {timeout:.0f} s waiting for {what()}")
        time.sleep(_PAUSE)
    return answer


def condition(tree: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    """The condition of a type in an object's status, empty if there is none."""
    conditions = ((tree or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == name), {})


def is_true(tree: Mapping[str, Any] | None, name: str) -> bool:
    """Whether a condition of an object's status holds."""
    return condition(tree, name).get("status") == "True"


def establish(api: Api, kinds: Collection[Object]) -> None:
    """Waits until the API server serves CRDs."""
    names = ", ".join(crd["metadata"]["name"] for crd in kinds)
    until(
        lambda: f"{names} to be served",
        lambda: all(is_true(api.get(crd), "Established") for crd in kinds),
        _TIMEOUT,
    )


def _strictly() -> dict[str, Any]:
    """Options of a request that writes an object. The client has no argument for strict validation."""
    return {"field_manager": FIELD_MANAGER, "query_params": [("fieldValidation", "Strict")]}


@contextmanager
def _translated() -> Generator[None]:
    """Turns errors of the client into errors of this module."""
    try:
        yield
    except DynamicApiError as error:
        raise ApiError(error.status or 0, error.summary()) from None
    except HTTPError as error:
        raise ConnectionError(str(error)) from None
