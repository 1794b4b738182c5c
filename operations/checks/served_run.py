"""Checks the finished run that a stack serves, and the model of the Hub that its servers load."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cloud.services.cloudrun import SERVICE
from cloud.services.storage import FINISHED_RUN
from components.finished_run.limits import length_in, problems_of_model
from components.finished_run.lookup import RunError, RunFiles, result_of
from operations.checks.hub import content_of
from operations.errors import ODD_ANSWER
from operations.findings import Finding, fine, problem
from operations.google.clients import Clients
from operations.plan import StackPlan

_SETTINGS: Final = ("servedRun", "bucket", "bucketName")
_COPY: Final = "kubernetes:batch/v1:Job"
_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+")


def check_served_run(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks what `up` checks first: that the run is complete and good, and fits into the GPUs."""
    named_buckets = {_bucket_in(plan.setting(key)) for key in _SETTINGS}
    for resource in plan.of_type(FINISHED_RUN.type):
        if resource.inputs["bucket"] not in named_buckets:
            # The engine makes up another name of the stack's own bucket for every plan.
            continue
        files = _Files(clients, resource.inputs)
        try:
            result = result_of(resource.inputs, files)
        except RunError as error:
            yield problem(error.reason, error.remedy)
        else:
            yield fine(f"run {files.uri} is complete, and its {result['kind']} can be served")


def _bucket_in(address: Any) -> str:
    return str(address).removeprefix("gs://").partition("/")[0]


class _Files(RunFiles):
    """The files as Google shows them to the person who runs the command."""

    def __init__(self, clients: Clients, inputs: Any) -> None:
        self._clients, self._inputs = clients, inputs
        self._bucket, self._folder = inputs["bucket"], inputs["run"]
        self.uri = f"gs://{self._bucket}/{self._folder}"

    def in_folder(self, folder: str) -> RunFiles:
        return _Files(self._clients, {**self._inputs, "run": folder})

    def read(self, name: str) -> bytes | None:
        return self._clients.read(self._bucket, f"{self._folder}/{name}")

    def sizes(self, folder: str) -> dict[str, int]:
        prefix = f"{self._folder}/{folder}/"
        items = self._clients.every("storage.v1", "objects.list", bucket=self._bucket, prefix=prefix)
        sizes = {item["name"].removeprefix(prefix): int(item["size"]) for item in items}
        return {name: size for name, size in sizes.items() if name}


@dataclass(frozen=True, kw_only=True)
class _Served:
    """A model of the Hub, the GPUs of a server, and its `--max-model-len`, 0 if that follows the model."""

    name: str
    revision: str | None
    gpus: int
    length: int


def check_served_model(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks positions and heads of what servers load. Says nothing if the Hub does not."""
    for served in dict.fromkeys(_served(plan)):
        try:
            content = content_of(plan, clients, served.name, served.revision, "config.json")
            config = json.loads(content or "{}")
            what = f"model {served.name}"
            problems = [*problems_of_model(what, config, served.gpus, served.length)]
        except ODD_ANSWER:
            continue
        yield from (problem(reason, remedy) for reason, remedy in problems)
        if config and not problems:
            yield fine(f"a server takes {what}")


def _served(plan: StackPlan) -> Iterator[_Served]:
    trained: Any = getattr(plan.recipe, "model", None)
    trained = trained if trained and trained.on_hub else None
    for run in plan.of_type(FINISHED_RUN.type):
        # A run of another stack is looked at itself.
        if trained and not plan.setting("servedRun"):
            gpus, length = int(run.inputs["gpus"]), int(run.inputs["users_length"])
            yield _Served(name=trained.name, revision=trained.revision, gpus=gpus, length=length)
    for service in plan.of_type(SERVICE.type):
        for container in (service.inputs.get("template") or {}).get("containers") or ():
            words = [str(word) for word in container.get("commands") or ()]
            if trained and "vllm" in words:
                length = length_in(words)
                yield _Served(name=trained.name, revision=trained.revision, gpus=1, length=length)
    for job in plan.of_type(_COPY):
        (container,) = job.inputs["spec"]["template"]["spec"]["containers"]
        words = [str(word) for word in container.get("args") or ()]
        if "copy" in (container.get("command") or ()) and _NAME.fullmatch(words[0]):
            options = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
            gpus, revision = int(options.get("gpus", 1)), options.get("revision")
            yield _Served(name=words[0], revision=revision, gpus=gpus, length=length_in(words))
