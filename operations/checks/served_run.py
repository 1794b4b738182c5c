"""Checks the finished run that a stack serves."""

from collections.abc import Iterator
from typing import Any, Final

from cloud.services.storage import FINISHED_RUN
from components.finished_run.lookup import RunError, RunFiles, result_of
from operations.findings import Finding, fine, problem
from operations.google.clients import Clients
from operations.plan import StackPlan

_SETTINGS: Final = ("servedRun", "bucket", "bucketName")


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
