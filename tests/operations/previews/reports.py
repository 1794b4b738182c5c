"""What the engine prints, small enough to be read, in the shapes that CLI 3.259 prints."""

import json
from collections.abc import Mapping
from typing import Any

PREFIX = "urn:pulumi:dev::llm-stacks::"


def step(
    op: str,
    kind: str,
    name: str,
    old: Mapping[str, Any] | None = None,
    new: Mapping[str, Any] | None = None,
    **rest: Any,
) -> dict[str, Any]:
    """One step. `old` and `new` are inputs."""
    states = {
        key: {"type": kind, "inputs": inputs}
        for key, inputs in (("oldState", old), ("newState", new))
        if inputs is not None
    }
    return {"op": op, "urn": f"{PREFIX}{kind}::{name}", **states, **rest}


def report(
    *steps: Mapping[str, Any], same: int = 0, errors: tuple[str, ...] = (), warnings: tuple[str, ...] = ()
) -> str:
    """What `pulumi preview --json` prints of these steps."""
    messages = {"error": errors, "warning": warnings}
    diagnostics = [
        {"severity": severity, "message": text} for severity in messages for text in messages[severity]
    ]
    return json.dumps({"steps": steps, "diagnostics": diagnostics, "changeSummary": {"same": same}})


BUCKET = "gcp:storage/bucket:Bucket"
POOL = "gcp:container/nodePool:NodePool"
JOB = "kubernetes:batch/v1:Job"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
