"""Previews and drift of stacks that exist, by the Pulumi on PATH and the credentials of the environment."""

import json
from dataclasses import replace
from pathlib import Path

from cloud import records
from engine import lookup
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction


def deployed(root: Path) -> set[str]:
    """Names of the stacks that the backend has.

    Raises:
        EngineError: When the backend cannot be asked.
    """
    listed = lookup.on_path().output(["stack", "ls", "--json"], root)
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
    # The stack's secret settings must not come out, whoever repeats them.
    settings = engine.call(["config", "--json", "--show-secrets", "--stack", stack], root)
    # Where this fails the preview fails too, and says why.
    entries = {} if settings.code else json.loads(settings.stdout)
    secrets = [str(entry["value"]) for entry in entries.values() if entry["secret"] and "value" in entry]
    return engine_report.run(engine, stack, arguments, root, Redaction(secrets))
