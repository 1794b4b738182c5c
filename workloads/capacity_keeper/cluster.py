"""What the keeper sees of the cluster and changes in it, by the API server."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Set
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from capacity_keeper.annotations import HELD_SINCE, STOPPED, TRIED
from capacity_keeper.search import Action, HoldBack, Job, Release, Renew, Stage, Start, Stop

_KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
# On a flavor, Kueue's word for one kind of node: no job tolerates it, so Kueue admits none to the flavor.
_TAINT = "capacity-keeper/held-back"
# The newest tries of a job are kept.
_TRIES = 20
_TIMEOUT = 30.0
# Kueue's annotation on pods, and its label for the group of a job's pods to which a pod belongs.
_WORKLOAD = "kueue.x-k8s.io/workload"
_GROUP = "kueue.x-k8s.io/podset"
_ENDED = ("Succeeded", "Failed")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
# Kueue's reason for a job whose requested nodes GKE has taken back.
_NODES_LOST = "DeactivatedDueToAdmissionCheck"

Object = dict[str, Any]

# What reading an object of an unexpected form raises.
ODD = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Cluster:
    """The API server, for one namespace.

    Args:
        address: Such as `https://10.0.0.1:443`.
        account: Folder with the service account's `token` and the authority's `ca.crt`.
        namespace: Namespace of the jobs.
        queue: Name of the queue of the jobs.
    """

    def __init__(self, address: str, account: Path, namespace: str, queue: str):
        self._queue = queue
        self._address = address
        self._account = account
        self._namespace = namespace
        self._trust = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def holds(self, capacities: Iterable[str]) -> dict[str, datetime]:
        """The capacities that are held back, with the times since when."""
        flavors = {name: self._call("GET", _flavor(name)) for name in capacities}
        since = {name: _annotations(flavor).get(HELD_SINCE) for name, flavor in flavors.items()}
        return {name: held_since(text) for name, text in since.items() if text}

    def jobs(self) -> list[Job]:
        """The jobs in the queue that have not finished."""
        there = self._call("GET", f"/api/v1/namespaces/{self._namespace}/pods")["items"] or ()
        pods = [pod for pod in there if _is_readable(pod)]
        jobs = []
        for workload in self._call("GET", self._workload(""))["items"] or ():
            try:
                job = job_of(workload, pods) if workload["spec"].get("queueName") == self._queue else None
            except ODD as error:
                # One odd object keeps no other job from moving.
                print(f"error: workload {_name(workload)}: {error!r}", flush=True)
                continue
            jobs += [job] if job else []
        return jobs

    def do(self, action: Action, now: datetime) -> None:
        """Carry out a decision."""
        if isinstance(action, HoldBack):
            taints = [{"key": _TAINT, "effect": "NoSchedule"}]
            self._patch(_flavor(action.capacity), {HELD_SINCE: now.isoformat()}, {"nodeTaints": taints})
        elif isinstance(action, Release):
            self._patch(_flavor(action.capacity), {HELD_SINCE: None}, {"nodeTaints": None})
        elif isinstance(action, Stop):
            path = self._workload(action.job.name)
            before = {} if action.first else _annotations(self._call("GET", path))
            tried = tries(before.get(TRIED, ""))
            since = action.job.since.isoformat() if action.job.since else ""
            tried.append({"capacity": action.job.capacity, "from": since, "to": now.isoformat()})
            self._patch(path, {STOPPED: "true", TRIED: json.dumps(tried[-_TRIES:])}, {"active": False})
        elif isinstance(action, Start):
            self._patch(self._workload(action.job.name), {STOPPED: None}, {"active": True})
        elif isinstance(action, Renew):
            # Kueue makes another workload for the job. Kueue 0.19.2 would not queue this one again:
            # https://github.com/kubernetes-sigs/kueue/pull/14874
            self._call("DELETE", self._workload(action.job.name))

    def _workload(self, name: str) -> str:
        return f"{_KUEUE}/namespaces/{self._namespace}/workloads/{name}".rstrip("/")

    def _patch(self, path: str, annotations: Mapping[str, str | None], spec: Object) -> None:
        self._call("PATCH", path, {"metadata": {"annotations": dict(annotations)}, "spec": spec})

    def _call(self, method: str, path: str, body: Object | None = None) -> Any:
        # Kubernetes renews the token in the file.
        token = (self._account / "token").read_text().strip()
        request = urllib.request.Request(
            self._address + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        )
        try:
            with urllib.request.urlopen(request, context=self._trust, timeout=_TIMEOUT) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise OSError(f"{method} {path}: {error.code} {error.read().decode(errors='replace')}") from None


def held_since(text: str) -> datetime:
    """The time in an annotation. What a person wrote counts as long ago, so the hold ends.

    That is text that is no time, and a time to come.
    """
    try:
        since = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return _LONG_AGO
    return since if since <= datetime.now(UTC) else _LONG_AGO


def tries(text: str) -> list[Any]:
    """The list in an annotation, empty if it is none."""
    try:
        listed = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return []
    return listed if isinstance(listed, list) else []


def job_of(workload: Object, pods: Iterable[Object]) -> Job | None:
    """The job of a workload of Kueue. None if it has finished, or if somebody else has stopped it.

    Args:
        pods: All pods of the namespace.
    """
    name, status = workload["metadata"]["name"], workload.get("status") or {}
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    if _is_true(conditions, "Finished"):
        return None
    off = not workload["spec"].get("active", True)
    lost = _is_true(conditions, "Evicted") and conditions["Evicted"]["reason"] == _NODES_LOST
    if lost or (off and STOPPED in _annotations(workload)):
        stays = _is_true(conditions, "QuotaReserved") or _has_pods(name, pods)
        return Job(name=name, stage=Stage.LOST if lost else Stage.STOPPED, stays=stays)
    if off:
        return None
    if not _is_true(conditions, "Admitted") or _is_true(conditions, "Evicted"):
        return Job(name=name, stage=Stage.QUEUED)
    # The other groups, such as the head of a Ray cluster, need no accelerators.
    assigned = [group for group in status["admission"]["podSetAssignments"] if group.get("flavors")]
    capacity = next((flavor for group in assigned for flavor in group["flavors"].values()), "")
    wanted = sum(group["count"] for group in assigned)
    groups = {group["name"] for group in assigned}
    own = [pod for pod in pods if _annotations(pod).get(_WORKLOAD) == name and _is_of(pod, groups)]
    homeless = [pod for pod in own if not pod["spec"].get("nodeName")]
    if not homeless and len(own) >= wanted:
        return Job(name=name, stage=Stage.PLACED, capacity=capacity)
    # A pod that has no node yet is not replaced, so it is as old as its wait. A pod that does not exist yet
    # waits for no node: it follows one that has failed.
    since = min((_time(pod["metadata"]["creationTimestamp"]) for pod in homeless), default=None)
    return Job(name=name, stage=Stage.WAITING, capacity=capacity, since=since)


def _has_pods(name: str, pods: Iterable[Object]) -> bool:
    """Whether pods of a job are left. A Ray cluster's pods go some time after Kueue has forgotten the job."""
    return any(_annotations(pod).get(_WORKLOAD) == name and not _has_ended(pod) for pod in pods)


def _is_readable(pod: Object) -> bool:
    """Whether a pod has what is read of it. The cluster has no other, but an answer may."""
    try:
        _annotations(pod).get(_WORKLOAD), _is_of(pod, frozenset()), pod["spec"].get("nodeName")
        _time(pod["metadata"]["creationTimestamp"])
    except ODD as error:
        print(f"error: pod {_name(pod)}: {error!r}", flush=True)
        return False
    return True


def _name(tree: Any) -> str:
    """The name of an object, or the beginning of what is none."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    return str(metadata.get("name") if isinstance(metadata, dict) else tree)[:80]


def _is_of(pod: Object, groups: Set[str]) -> bool:
    """Whether the pod is of one of these groups, and runs or will run."""
    if _has_ended(pod) or "deletionTimestamp" in pod["metadata"]:
        return False
    return (pod["metadata"].get("labels") or {}).get(_GROUP) in groups


def _has_ended(pod: Object) -> bool:
    return pod["status"].get("phase") in _ENDED


def _is_true(conditions: Mapping[str, Object], kind: str) -> bool:
    return conditions.get(kind, {}).get("status") == "True"


def _annotations(tree: Object) -> dict[str, str]:
    return tree["metadata"].get("annotations") or {}


def _flavor(name: str) -> str:
    return f"{_KUEUE}/resourceflavors/{name}"


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
