"""`python -m operations provider-check`: what the real providers reject of a new stack.

The rehearsal's fake providers know what this project uses of Google; the real ones know their whole schema,
and some rules besides. They plan a new stack of the working tree, without an account and with nothing
reachable, as the program calls no data source.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from engine import lookup
from engine.command import Engine
from engine.configuration import configuration
from engine.project import ROOT, known_stacks, require_stack
from engine.text import visible
from operations.previews import checkout, engine_report
from operations.previews.changes import Kind, StackPreview
from operations.previews.redaction import Redaction

HELP: Final = "what Google's and Kubernetes' own providers reject of a new stack; needs no account"

# The provider takes any token and asks Google once whose it is; without an answer it goes on. A proxy that
# rejects is no answer at once; no network is none after minutes.
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
    """Prints a line a stack; 1 when a provider rejects one. What is checked is the working tree."""
    chosen = sorted(options.stack or known_stacks())
    for stack in chosen:
        require_stack(stack)
    engine = lookup.distribution()
    with checkout.copied(ROOT) as copy:
        (copy / ".venv").symlink_to(ROOT / ".venv")
        (copy / ".state").mkdir()
        # While the network is there.
        engine.output(["install", "--no-dependencies"], copy)
        previews = [_preview(engine, stack, copy) for stack in chosen]
    for preview in previews:
        result = preview.failure or f"{len(preview.of(Kind.CREATE))} to create"
        print(visible(f"{preview.stack}: {result}"))
    return 1 if any(preview.failure for preview in previews) else 0


def _preview(engine: Engine, stack: str, copy: Path) -> StackPreview:
    """The plan of a new stack, with fake values for what its file leaves out."""
    print(f"provider-check: {stack}", file=sys.stderr)
    found = configuration(stack, {}, copy)
    (copy / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": found.plain}))
    backend = {"PULUMI_BACKEND_URL": f"file://{copy}/.state", "PULUMI_CONFIG_PASSPHRASE": "provider-check"}
    engine.output(["stack", "init", stack, "--secrets-provider", "passphrase"], copy, backend)
    for key, value in found.secret.items():
        engine.output(["config", "set", "--secret", key, "--stack", stack], copy, backend, value)
    redaction = Redaction(found.secret.values())
    return engine_report.run(engine, stack, ["preview", "--json"], copy, redaction, {**backend, **_ALONE})
