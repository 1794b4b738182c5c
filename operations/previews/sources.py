"""Previews one stack. The engine previews an existing stack with the environment's credentials. Other stacks
are rehearsed without a cloud.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cloud import records
from engine import lookup
from engine.errors import EngineError
from engine.project import ROOT, known_stacks
from operations import plan
from operations.errors import OperationError
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction
from operations.previews.run_steps import with_steps
from operations.previews.state_code import require_own_code

# The random end of an automatic name, which every rehearsal chooses anew.
_AUTOMATIC: Final = re.compile(r"(?<=-)[0-9a-f]{7}(?![0-9A-Za-z])")


def deployed() -> set[str]:
    """Names of the stacks that the backend has.

    Raises:
        EngineError: When the backend cannot be asked.
    """
    listed = lookup.find().parsed(["stack", "ls", "--json"], ROOT)
    # Pulumi Cloud puts the organization before the name.
    return {str(stack["name"]).split("/")[-1] for stack in listed}


def in_cloud(stack: str) -> StackPreview:
    """What `pulumi up` would change in an existing stack."""
    return with_steps(replace(_run(stack, ["preview", "--json"]), against="what exists"))


def drift(stack: str) -> StackPreview:
    """What has changed in a stack since the last `pulumi up`, except in secrets and buckets."""
    return replace(_run(stack, drift_arguments()), against="the last `pulumi up`")


def drift_arguments() -> list[str]:
    """The engine's arguments for `drift`.

    They exclude sealed resources, whose content the preview identity may not read.
    """
    sealed = sorted(record.type for record in records.every().values() if record.sealed)
    return [
        "refresh",
        "--preview-only",
        "--json",
        *(f"--exclude=**${type_token}::**" for type_token in sealed),
    ]


def rehearsed(stack: str, target: Path) -> StackPreview:
    """What a merge would change in a stack that the target branch's program has created.

    Args:
        target: Checkout of the target branch. If the stack is not in it, everything is new.
    """
    base = [f"--base={target}"] if stack in known_stacks(target) else []
    try:
        return _rehearsed(stack, base)
    except (EngineError, OperationError) as error:
        failure = Redaction().text(str(error))
    protected = engine_report.protected_in(failure)
    if not protected:
        return StackPreview(stack=stack, failure=failure)
    # The engine refuses, and says nothing of the rest. Without the protection it says what would go.
    try:
        return replace(_rehearsed(stack, [*base, "--set=forceDestroy=true"]), protected=protected)
    except (EngineError, OperationError):
        return StackPreview(stack=stack, failure=failure, protected=protected)


def _rehearsed(stack: str, options: Sequence[str]) -> StackPreview:
    report = plan.rehearsed(stack, *options)
    return engine_report.read(stack, _AUTOMATIC.sub("*******", report), Redaction())


def _run(stack: str, arguments: list[str]) -> StackPreview:
    engine = lookup.find()
    # The stack's secret settings must stay secret in every output.
    settings = engine.call(["config", "--json", "--show-secrets", "--stack", stack], ROOT)
    # If this fails, the preview fails too and says why.
    entries = {} if settings.code else json.loads(settings.stdout)
    secrets = [str(entry["value"]) for entry in entries.values() if entry["secret"] and "value" in entry]
    redaction = Redaction(secrets)
    try:
        require_own_code(stack, entries)
    except (EngineError, OperationError) as error:
        return StackPreview(stack=stack, failure=redaction.text(str(error)))
    return engine_report.run(engine, stack, arguments, ROOT, redaction)
