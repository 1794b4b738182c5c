"""Cloud Run for a rehearsal: runs the containers of the program's jobs and services, and keeps its files."""

import itertools
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Final

from cloud.services.cloudrun import JOB, SERVICE
from rehearsal.control_plane.api import Object
from rehearsal.fakes.cloud import FakeCloud, Item, Rejected
from rehearsal.fakes.cloud_run_server import CloudRunServer
from rehearsal.pods.pod import Machine
from rehearsal.running_pods.bucket_objects import BucketObjects
from rehearsal.running_pods.instance import Instance

# Messages of Cloud Run and the provider: https://github.com/transparency-dev/tesseract/issues/413,
# https://github.com/googlecodelabs/feedback/issues/1369
_UNREADY: Final = (
    "Error waiting to create Service: Error waiting for Creating Service: Error code 9, message: "
    "Revision '{}' is not ready and cannot serve traffic. {} Logs for this revision might contain more "
    "information."
)
_UNSTARTED: Final = "The user-provided container failed the configured startup probe checks."
_FAILED: Final = "Task {} failed with message: {}"
_ENDED: Final = "The container exited with an error."
_LATE: Final = "The configured timeout was reached."


class CloudRun:
    """Runs services, and executions of jobs, one task after the other.

    Args:
        cloud: The fake cloud.
        server: The API, which starts executions and gets their ends.
        machine: The machine of every container.

    Attributes:
        instances: All instances in the order of their starts.
    """

    def __init__(self, cloud: FakeCloud, server: CloudRunServer, machine: Machine) -> None:
        self._cloud, self._server, self._machine = cloud, server, machine
        self._cancelled: set[str] = set()
        self._executions: dict[str, threading.Thread] = {}
        self._services: dict[str, Instance] = {}
        self._revisions = itertools.count(1)
        self.instances: list[Instance] = []
        server.on_run, server.on_cancel = self._run, self._cancel
        self._objects = BucketObjects(machine.bucket)
        cloud.on_write, cloud.on_removal = self._write, self._remove

    def stop(self) -> None:
        """Kills all instances."""
        self._cancelled.update(self._executions)
        for thread in self._executions.values():
            while thread.is_alive():
                for instance in list(self.instances):
                    instance.kill()
                thread.join(0.1)
        for instance in self.instances:
            instance.close()

    def at(self, address: str) -> Instance | None:
        """The instance with an address."""
        return next((instance for instance in self.instances if instance.address == address), None)

    def _run(self, execution: str) -> None:
        self._executions[execution] = threading.Thread(target=self._execute, args=(execution,), daemon=True)
        self._executions[execution].start()

    def _cancel(self, execution: str) -> None:
        self._cancelled.add(execution)
        self._executions[execution].join()

    def _execute(self, execution: str) -> None:
        name = execution.partition("/executions/")[0]
        (template,) = (job.inputs["template"] for job in self._cloud.of_type(JOB.type) if job.id == name)
        failures = (self._task(execution, template, index) for index in range(template.get("taskCount", 1)))
        # The tasks after one that has failed do not run.
        self._server.end(execution, next(filter(None, failures), ""))

    def _task(self, execution: str, template: Object, index: int) -> str:
        """Runs a task with its retries. Returns why it has failed, empty if it has not."""
        _, job, _, short = execution.rsplit("/", 3)
        task, reason, count = template["template"], "", template.get("taskCount", 1)
        timeout = float(task.get("timeout", "600s").removesuffix("s"))
        own = {"JOB": job, "EXECUTION": short, "TASK_INDEX": index, "TASK_COUNT": count}
        for attempt in range(task.get("maxRetries", 3) + 1):
            own["TASK_ATTEMPT"] = attempt
            variables = {f"CLOUD_RUN_{key}": value for key, value in own.items()}
            instance = self._start(f"{short}-task{index}-{attempt}", task, variables, "Never")
            reason = self._failure(execution, instance, timeout)
            if not reason or execution in self._cancelled:
                return reason
        return _FAILED.format(f"{short}-task{index}", reason)

    def _failure(self, execution: str, instance: Instance, seconds: float) -> str:
        """Waits for the end of an attempt. Returns why it has failed, empty if it has not."""
        deadline, reason = time.monotonic() + seconds, ""
        while instance.thread.is_alive() and not reason:
            instance.thread.join(0.1)
            if execution in self._cancelled:
                reason = "cancelled"
            elif instance.start_failure:
                reason = instance.start_failure
            elif time.monotonic() > deadline:
                reason = _LATE
        instance.end()
        if not reason and instance.tree["status"]["phase"] != "Succeeded":
            reason = _ENDED
        return reason

    def _serve(self, item: Item) -> None:
        """Starts a new revision of a service, and ends the old one when the new one is ready."""
        template, name = item.inputs["template"], item.inputs["name"]
        revision = f"{name}-{next(self._revisions):05}-{uuid.uuid4().hex[:3]}"
        port = template["containers"][0].get("ports", {}).get("containerPort", 8080)
        own = {"PORT": port, "K_SERVICE": name, "K_REVISION": revision, "K_CONFIGURATION": name}
        instance = self._start(revision, template, own, "Always")
        while not instance.status.get("ready"):
            instance.thread.join(0.1)
            if instance.start_failure or instance.status.get("restartCount"):
                instance.end()
                raise Rejected(_UNREADY.format(revision, instance.start_failure or _UNSTARTED))
        before, self._services[item.id] = self._services.get(item.id), instance
        if before:
            before.end()

    def _start(self, name: str, template: Object, variables: Mapping[str, object], policy: str) -> Instance:
        instance = Instance(name, template, variables, policy, self._cloud, self._machine)
        self.instances.append(instance)
        return instance

    def _write(self, item: Item) -> None:
        if item.type == SERVICE.type:
            self._serve(item)
        self._objects.write(item)

    def _remove(self, item: Item) -> None:
        if item.id in self._services:
            self._services.pop(item.id).end()
        self._objects.remove(item)
