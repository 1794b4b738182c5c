"""`python -m operations provider-check`: what the real providers refuse of a new stack.

The rehearsal's fake providers know what this project uses of Google; the real ones know their whole schema,
and some rules besides. They plan a new stack without an account and with nothing reachable, as the program
calls no data source.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from engine import lookup
from engine.command import Engine
from engine.configuration import configuration
from engine.errors import EngineError
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
        engine = lookup.on_path()
        _run_step(engine, copy, ["install", "--no-dependencies"], {})
        previews = [_preview(engine, stack, copy) for stack in sorted(options.stack or known_stacks())]
    for preview in previews:
        print(f"{preview.stack}: {preview.failure or f'{len(preview.of(Kind.CREATE))} to create'}")
    return 1 if any(preview.failure for preview in previews) else 0


def _preview(engine: Engine, stack: str, copy: Path) -> StackPreview:
    """The plan of a new stack, with fake values for what its file leaves out."""
    print(f"provider-check: {stack}", file=sys.stderr)
    found = configuration(stack, {}, copy)
    (copy / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": found.plain}))
    state = copy / ".state"
    state.mkdir(exist_ok=True)
    backend = {"PULUMI_BACKEND_URL": f"file://{state}", "PULUMI_CONFIG_PASSPHRASE": "provider-check"}
    _run_step(engine, copy, ["stack", "init", stack, "--secrets-provider", "passphrase"], backend)
    for key, value in found.secret.items():
        _run_step(engine, copy, ["config", "set", "--secret", key, "--stack", stack], backend, text=value)
    redaction = Redaction([*secret_variables(os.environ), *found.secret.values()])
    return engine_report.run(engine, stack, ["preview", "--json"], copy, redaction, {**backend, **_ALONE})


def _run_step(
    engine: Engine, copy: Path, arguments: list[str], environment: Mapping[str, str], text: str = ""
) -> None:
    """Runs a step that must not fail."""
    try:
        engine.output(arguments, copy, environment, text)
    except EngineError as error:
        raise OperationError(Redaction(secret_variables(os.environ)).text(str(error))) from None
