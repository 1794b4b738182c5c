"""Previews and drift of stacks that exist, by the Pulumi on PATH and the credentials of the environment."""

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from cloud import records
from engine import lookup
from engine.command import Engine
from engine.errors import EngineError
from operations.errors import OperationError
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction, secret_configuration, secret_variables


def deployed(root: Path) -> set[str]:
    """Names of the stacks that the backend has.

    Raises:
        OperationError: When the backend cannot be asked.
    """
    try:
        listed = lookup.on_path().output(["stack", "ls", "--json"], root)
    except EngineError as error:
        raise OperationError(Redaction(secret_variables(os.environ)).text(str(error))) from None
    # Pulumi Cloud puts the organization before the name.
    return {str(stack["name"]).split("/")[-1] for stack in json.loads(listed)}


def preview(stack: str, root: Path) -> StackPreview:
    """What `pulumi up` would change of a stack."""
    return replace(_run(stack, root, ["preview", "--json"]), against="what exists")


def drift(stack: str, root: Path) -> StackPreview:
    """What has become of a stack since the last `pulumi up`, but for what is in secrets and in buckets."""
    return replace(_run(stack, root, drift_arguments()), against="the last `pulumi up`")


def drift_arguments() -> list[str]:
    """The engine's words for `drift`: the identity of previews may not read what is in a sealed thing."""
    sealed = sorted(record.type for record in records.every().values() if record.sealed)
    return ["refresh", "--preview-only", "--json", *(f"--exclude=**${each}::**" for each in sealed)]


def _run(stack: str, root: Path, arguments: list[str]) -> StackPreview:
    engine = lookup.on_path()
    return engine_report.run(engine, stack, arguments, root, Redaction(_secrets(engine, stack, root)))


def _secrets(engine: Engine, stack: str, root: Path) -> Iterable[str]:
    """What must not come out: the stack's secret settings, and this process's own secrets."""
    done = engine.call(["config", "--json", "--show-secrets", "--stack", stack], root)
    known = secret_variables(os.environ)
    if done.code:
        # The preview that follows fails for the same reason, and says it.
        return known
    try:
        return [*known, *secret_configuration(done.stdout)]
    except ValueError as error:
        raise OperationError(f"stack {stack}: {error}") from None
