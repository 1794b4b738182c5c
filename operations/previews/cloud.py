"""Previews and drift of stacks that exist, by the Pulumi on PATH and the credentials of the environment."""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from operations.errors import OperationError
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction, secret_configuration, secret_variables

# Reading these back needs the right to read what is in them, which the identity of previews does not have.
_UNREADABLE: Final = (
    "gcp:secretmanager/secretVersion:SecretVersion",
    "gcp:storage/bucketObject:BucketObject",
    "kubernetes:core/v1:Secret",
)


def deployed(root: Path) -> set[str]:
    """Names of the stacks that the backend has.

    Raises:
        OperationError: When the backend cannot be asked.
    """
    done = _pulumi(root, ["stack", "ls", "--json"])
    if done.returncode:
        said = Redaction(secret_variables(os.environ)).text(done.stderr.strip())
        raise OperationError(f"pulumi stack ls: {said}")
    # Pulumi Cloud puts the organization before the name.
    return {str(stack["name"]).split("/")[-1] for stack in json.loads(done.stdout)}


def preview(stack: str, root: Path) -> StackPreview:
    """What `pulumi up` would change of a stack."""
    return replace(_read(stack, root, ["preview", "--json"]), against="what exists")


def drift(stack: str, root: Path) -> StackPreview:
    """What has become of a stack since the last `pulumi up`, but for what is in secrets and in buckets."""
    found = _read(stack, root, drift_arguments())
    return replace(found, against="the last `pulumi up`")


def drift_arguments() -> list[str]:
    """The engine's words for `drift`."""
    return ["refresh", "--preview-only", "--json", *(f"--exclude=**${kind}::**" for kind in _UNREADABLE)]


def _read(stack: str, root: Path, arguments: list[str]) -> StackPreview:
    redaction = Redaction(_secrets(stack, root))
    done = _pulumi(root, [*arguments, "--stack", stack])
    try:
        found = engine_report.read(stack, done.stdout, redaction)
    except ValueError:
        if not done.returncode:
            raise
        found = StackPreview(stack=stack)
    if done.returncode and not found.failure:
        said = done.stderr.strip() or f"pulumi {arguments[0]} ended with status {done.returncode}"
        return StackPreview(stack=stack, failure=redaction.text(said))
    return found


def _secrets(stack: str, root: Path) -> Iterable[str]:
    """What must not come out: the stack's secret settings, and this process's own secrets."""
    done = _pulumi(root, ["config", "--json", "--show-secrets", "--stack", stack])
    known = secret_variables(os.environ)
    if done.returncode:
        # The preview that follows fails for the same reason, and says it.
        return known
    try:
        return [*known, *secret_configuration(done.stdout)]
    except ValueError as error:
        raise OperationError(f"stack {stack}: {error}") from None


def _pulumi(root: Path, arguments: list[str]) -> "subprocess.CompletedProcess[Any]":
    try:
        return subprocess.run(
            ["pulumi", "--non-interactive", *arguments],
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise OperationError(
            "there is no pulumi on PATH; https://www.pulumi.com/docs/install/ has it"
        ) from None
