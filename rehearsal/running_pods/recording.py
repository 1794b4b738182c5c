"""Follows a stage: its pods, the training in Kueue's queue, and the loss."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from kubernetes import client, config, watch
from urllib3.exceptions import HTTPError

from cloud.services.kubernetes import prepares
from rehearsal.control_plane.api import ApiError, Object, is_true
from rehearsal.running_pods import picture
from rehearsal.running_pods.stage import Stage
from rehearsal.running_pods.timeline import ENDING, PREEMPTED, RUNNING, STARTING, WAITING, History, Timeline

_GPU: Final = "nvidia.com/gpu"
_JOB: Final = "batch.kubernetes.io/job-name"


class Recording:
    """Follows the API server and the run's metrics. It is a context.

    Args:
        stage: The stage to follow.

    Attributes:
        timeline: Everything that was seen so far.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage, self._begin = stage, time.monotonic()
        self.timeline = Timeline()
        self._stopped, self._events = threading.Event(), watch.Watch()
        followers = (self._follow_pods, self._follow_queue_and_loss)
        self._threads = [threading.Thread(target=follower, daemon=True) for follower in followers]

    def __enter__(self) -> Self:
        """Starts to follow."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops."""
        self._stopped.set()
        self._events.stop()
        for thread in self._threads:
            thread.join(5)
        self.timeline.length = self._seconds()

    def note(self, text: str) -> None:
        """Marks this moment in the picture."""
        self.timeline.notes.append((self._seconds(), text))

    def ending(self, pod: str) -> str:
        """How a pod ended, such as `exit 143`. Empty while it runs."""
        return self.timeline.pods[pod].ending

    def draw(self, path: Path) -> None:
        """Writes the picture, an SVG."""
        path.write_text(picture.draw(self.timeline))

    def _seconds(self) -> float:
        return time.monotonic() - self._begin

    def _follow_pods(self) -> None:
        """Notes every state of every pod, also a short one."""
        settings = client.Configuration(no_proxy="127.0.0.1")
        config.load_kube_config(str(self._stage.plane.kubeconfig), client_configuration=settings)
        pods = client.CoreV1Api(client.ApiClient(settings)).list_pod_for_all_namespaces
        with suppress(HTTPError):  # when it is stopped
            for event in self._events.stream(pods, deserialize=False):
                self._see_pod(event["object"], gone=event["type"] == "DELETED")

    def _see_pod(self, pod: Object, *, gone: bool) -> None:
        # The picture is about the GPUs, which a trial and a copy of weights do not ask for.
        if prepares({"spec": {"template": pod}}):
            return
        history = self.timeline.pods.setdefault(pod["metadata"]["name"], _history(pod))
        history.node = pod["spec"].get("nodeName", history.node)
        for status in pod["status"].get("containerStatuses") or ():
            if "terminated" in status["state"]:
                history.ending = f"exit {status['state']['terminated']['exitCode']}"
        history.see(self._seconds(), "" if gone or history.ending else _state(pod))

    def _follow_queue_and_loss(self) -> None:
        while not self._stopped.wait(0.2):
            with suppress(ApiError, ConnectionError):  # before Kueue is there
                for workload in self._stage.api.list("kueue.x-k8s.io/v1beta2", "Workload"):
                    if workload["metadata"]["name"].startswith("job-"):
                        self.timeline.queue.see(self._seconds(), _state_in_queue(workload))
            for step, loss in self._stage.losses().items():
                self.timeline.losses.setdefault(step, (self._seconds(), loss))


def _history(pod: Object) -> History:
    containers = pod["spec"]["containers"]
    limits = [container.get("resources", {}).get("limits", {}) for container in containers]
    gpus = sum(int(limit.get(_GPU, 0)) for limit in limits)
    trains = _JOB in pod["metadata"].get("labels", {})
    return History("fine-tune" if trains else "server", "fine-tune" if trains else "server", gpus=gpus)


def _state(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return ENDING
    if is_true(pod, "Ready"):
        return RUNNING
    return STARTING if "nodeName" in pod["spec"] else WAITING


def _state_in_queue(workload: Object) -> str:
    if is_true(workload, "Finished"):
        return ""
    if is_true(workload, "Admitted"):
        return RUNNING
    return PREEMPTED if is_true(workload, "Evicted") else WAITING
