"""Previews without a cloud: the target's program comes up, then this checkout's is previewed on that."""

import re
from pathlib import Path
from typing import Final

from engine.errors import EngineError
from engine.project import known_stacks
from operations import plan
from operations.errors import OperationError
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction

# The end of an automatic name, another one in every rehearsal.
_AUTOMATIC: Final = re.compile(r"(?<=-)[0-9a-f]{7}(?![0-9A-Za-z])")


def preview(stack: str, target: Path) -> StackPreview:
    """What a merge would change of a stack that is as the target branch has it.

    Args:
        stack: Name of the stack.
        target: Checkout of the target branch; without the stack in it everything is new.
    """
    base = [f"--base={target}"] if stack in known_stacks(target) else []
    try:
        report = plan.rehearsed(stack, *base)
    except (EngineError, OperationError) as error:
        return StackPreview(stack=stack, failure=Redaction().text(str(error)))
    return engine_report.read(stack, _AUTOMATIC.sub("*******", report), Redaction())
