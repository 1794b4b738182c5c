"""Checks the files of rows that a recipe names."""

from collections.abc import Iterator
from pathlib import Path

from operations.clients import Clients
from operations.errors import CallError
from operations.findings import Finding, fine, problem
from operations.plan import StackPlan


def check_data(plan: StackPlan, clients: Clients) -> Iterator[Finding]:
    """Checks that the files are where the recipe says, before nodes are asked for."""
    files = plan.data_files
    if not files:
        yield fine("the recipe names no files")
    for file in files:
        if not file.startswith("gs://"):
            size_mb = Path(file).stat().st_size / 1e6
            yield fine(f"{file} is here ({size_mb:.1f} MB), and up uploads it")
            continue
        bucket, _, name = file.removeprefix("gs://").partition("/")
        try:
            size_mb = int(clients.call("storage.v1", "objects.get", bucket=bucket, object=name)["size"]) / 1e6
        except CallError as error:
            if not error.missing:
                raise
            yield problem(
                f"there is no {file}", f"gcloud storage cp {Path(name).name} {file}, or name another file"
            )
        else:
            yield fine(f"{file} is there ({size_mb:.1f} MB)")
