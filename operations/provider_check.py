"""`python -m operations provider-check`: checks new stacks with the real providers.

The rehearsal's fake providers know the part of Google that this project uses. The real ones know their whole
schema and more rules. They plan a new stack of the working tree without an account or a network. That works
because the program calls no data source.
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

HELP: Final = "plan new stacks with Google's and Kubernetes' own providers; needs no account"

# The provider accepts any token and asks Google once who owns it. Without an answer it goes on. A proxy that
# refuses connections ends that at once. Without a network it takes minutes.
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
    """Checks the working tree and prints a line for each stack. Returns 1 if a provider rejects one."""
    chosen = sorted(options.stack or known_stacks())
    for stack in chosen:
        require_stack(stack)
    engine = lookup.distribution()
    with checkout.copied(ROOT) as copy:
        (copy / ".venv").symlink_to(ROOT / ".venv")
        (copy / ".state").mkdir()
        # The plugins are downloaded here, while there is a network.
        engine.output(["install", "--no-dependencies"], copy)
        previews = [_preview(engine, stack, copy) for stack in chosen]
    for preview in previews:
        result = preview.failure or f"{len(preview.of(Kind.CREATE))} to create"
        print(visible(f"{preview.stack}: {result}"))
    return 1 if any(preview.failure for preview in previews) else 0


def _preview(engine: Engine, stack: str, copy: Path) -> StackPreview:
    """Plans a new stack, with fake values for missing settings."""
    print(f"provider-check: {stack}", file=sys.stderr)
    values = configuration(stack, {}, copy)
    (copy / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump({"config": values.plain}))
    backend = {"PULUMI_BACKEND_URL": f"file://{copy}/.state", "PULUMI_CONFIG_PASSPHRASE": "provider-check"}
    engine.output(["stack", "init", stack, "--secrets-provider", "passphrase"], copy, backend)
    for key, value in values.secret.items():
        engine.output(["config", "set", "--secret", key, "--stack", stack], copy, backend, value)
    redaction = Redaction(values.secret.values())
    return engine_report.run(engine, stack, ["preview", "--json"], copy, redaction, {**backend, **_ALONE})
