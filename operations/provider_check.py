"""`python -m operations provider-check`: what the real providers refuse of a new stack.

The rehearsal's stand-ins know what this project uses of Google; the providers know their whole schema, and
some rules besides. They plan a new stack without an account and with nothing reachable, as the program
calls no data source.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from engine.configuration import configuration
from engine.project import ROOT, known_stacks
from operations.errors import OperationError
from operations.previews import checkout, engine_report
from operations.previews.changes import Kind, StackPreview
from operations.previews.redaction import Redaction, secret_variables

HELP: Final = "what Google's and Kubernetes' own providers refuse of a new stack; needs no account"

# The provider takes any token and asks Google once whose it is; without an answer it goes on. A proxy that
# refuses is no answer at once; no network is none after minutes.
_NOWHERE: Final = "http://127.0.0.1:9"
_ALONE: Final[Mapping[str, str]] = {
    "GOOGLE_OAUTH_ACCESS_TOKEN": "dummy",
    "PULUMI_GCP_SKIP_REGION_VALIDATION": "true",
    "HTTPS_PROXY": _NOWHERE,
    "https_proxy": _NOWHERE,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.add_argument(
        "--stack", action="append", help="name of a stack; may be repeated; by default every stack"
    )


def run(options: argparse.Namespace) -> int:
    """Prints a line a stack; 1 when a provider refuses one. What is checked is committed."""
    unknown = set(options.stack or ()) - set(known_stacks())
    if unknown:
        raise OperationError(f"there is no stack {', '.join(sorted(unknown))}; {', '.join(known_stacks())}")
    with checkout.exported(ROOT, "HEAD") as copy:
        (copy / ".venv").symlink_to(ROOT / ".venv")
        # While the network is there.
        _pulumi(copy, ["install", "--no-dependencies"], {})
        previews = [_preview(stack, copy) for stack in sorted(options.stack or known_stacks())]
    for preview in previews:
        print(f"{preview.stack}: {preview.failure or f'{len(preview.of(Kind.CREATE))} to create'}")
    return 1 if any(preview.failure for preview in previews) else 0


def _preview(stack: str, copy: Path) -> StackPreview:
    """The plan of a new stack, with stand-ins for what its file leaves out."""
    print(f"provider-check: {stack}", file=sys.stderr)
    found = configuration(stack, {}, copy)
    (copy / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": found.plain}))
    state = copy / ".state"
    state.mkdir(exist_ok=True)
    backend = {"PULUMI_BACKEND_URL": f"file://{state}", "PULUMI_CONFIG_PASSPHRASE": "provider-check"}
    _pulumi(copy, ["stack", "init", stack, "--secrets-provider", "passphrase"], backend)
    for key, value in found.secret.items():
        _pulumi(copy, ["config", "set", "--secret", key, "--stack", stack], backend, text=value)
    redaction = Redaction([*secret_variables(os.environ), *found.secret.values()])
    done = _run(copy, ["preview", "--json", "--stack", stack], {**backend, **_ALONE})
    try:
        preview = engine_report.read(stack, done.stdout, redaction)
    except ValueError:
        preview = StackPreview(stack=stack)
    if done.returncode and not preview.failure:
        return StackPreview(
            stack=stack, failure=redaction.text(done.stderr.strip()) or "pulumi preview failed"
        )
    return preview


def _pulumi(copy: Path, arguments: list[str], environment: Mapping[str, str], text: str = "") -> None:
    """Runs a step that must not fail."""
    done = _run(copy, arguments, environment, text)
    if done.returncode:
        said = Redaction(secret_variables(os.environ)).text(done.stderr.strip())
        raise OperationError(f"pulumi {' '.join(arguments[:2])}: {said}")


def _run(
    copy: Path, arguments: list[str], environment: Mapping[str, str], text: str = ""
) -> "subprocess.CompletedProcess[Any]":
    try:
        return subprocess.run(
            ["pulumi", "--non-interactive", *arguments],
            cwd=copy,
            env={**os.environ, "PULUMI_SKIP_UPDATE_CHECK": "true", **environment},
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError:
        raise OperationError(
            "there is no pulumi on PATH; https://www.pulumi.com/docs/install/ has it"
        ) from None
