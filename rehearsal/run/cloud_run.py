"""Cloud Run over a rehearsal: the program's jobs and services run, and its buckets have what it uploads."""

import itertools
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Final

from cloud.run import JOB, SERVICE
from rehearsal.cloud_run_server import CloudRunServer
from rehearsal.control_plane.api import Object
from rehearsal.fake_cloud import FakeCloud, Item, Rejected
from rehearsal.pods.pod import Machine
from rehearsal.run.bucket_objects import BucketObjects
from rehearsal.run.instance import Instance

# As Cloud Run and the provider say it: https://github.com/transparency-dev/tesseract/issues/413,
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
    """Runs what the program declares, one task of a job after the other, until it is stopped.

    Args:
        cloud: What exists.
        server: Is asked to run jobs, and told how they end.
        machine: What every container finds.

    Attributes:
        instances: All that were started, in their order.
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
        """Ends everything at once."""
        self._cancelled.update(self._executions)
        for thread in self._executions.values():
            while thread.is_alive():
                for instance in list(self.instances):
                    instance.kill()
                thread.join(0.1)
        for instance in self.instances:
            instance.close()

    def at(self, address: str) -> Instance | None:
        """What has an address."""
        return next((each for each in self.instances if each.address == address), None)

    def _run(self, execution: str) -> None:
        self._executions[execution] = threading.Thread(target=self._execute, args=(execution,), daemon=True)
        self._executions[execution].start()

    def _cancel(self, execution: str) -> None:
        self._cancelled.add(execution)
        self._executions[execution].join()

    def _execute(self, execution: str) -> None:
        name = execution.partition("/executions/")[0]
        (template,) = (job.inputs["template"] for job in self._cloud.of_type(JOB.type) if job.id == name)
        ends = (self._task(execution, template, index) for index in range(template.get("taskCount", 1)))
        self._server.end(execution, next(filter(None, ends), ""))

    def _task(self, execution: str, template: Object, index: int) -> str:
        """Runs a task as often as it may; why it has failed, empty when it has not."""
        _, job, _, short = execution.rsplit("/", 3)
        task, why, count = template["template"], "", template.get("taskCount", 1)
        own = {"JOB": job, "EXECUTION": short, "TASK_INDEX": index, "TASK_COUNT": count}
        for attempt in range(task.get("maxRetries", 3) + 1):
            own["TASK_ATTEMPT"] = attempt
            variables = {f"CLOUD_RUN_{key}": value for key, value in own.items()}
            instance = self._start(f"{short}-task{index}-{attempt}", task, variables, "Never")
            why = self._trouble(execution, instance, float(task.get("timeout", "600s").removesuffix("s")))
            if not why or execution in self._cancelled:
                return why
        return _FAILED.format(f"{short}-task{index}", why)

    def _trouble(self, execution: str, instance: Instance, seconds: float) -> str:
        """Waits for the end of a try; why it has failed."""
        deadline, why = time.monotonic() + seconds, ""
        while instance.thread.is_alive() and not why:
            instance.thread.join(0.1)
            late = _LATE if time.monotonic() > deadline else ""
            why = "cancelled" if execution in self._cancelled else instance.misfit or late
        instance.end()
        return why or ("" if instance.tree["status"]["phase"] == "Succeeded" else _ENDED)

    def _serve(self, item: Item) -> None:
        """Starts another revision in the place of what has served."""
        template, name = item.inputs["template"], item.inputs["name"]
        revision = f"{name}-{next(self._revisions):05}-{uuid.uuid4().hex[:3]}"
        port = template["containers"][0].get("ports", {}).get("containerPort", 8080)
        own = {"PORT": port, "K_SERVICE": name, "K_REVISION": revision, "K_CONFIGURATION": name}
        instance = self._start(revision, template, own, "Always")
        while not instance.status.get("ready"):
            instance.thread.join(0.1)
            if instance.misfit or instance.status.get("restartCount"):
                instance.end()
                raise Rejected(_UNREADY.format(revision, instance.misfit or _UNSTARTED))
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
