"""Previews without a cloud: the target's program comes up, then the branch's is previewed on that."""

import re
from pathlib import Path
from typing import Final

from engine.errors import EngineError
from engine.go_build import Log
from engine.project import known_stacks
from operations.previews import engine_report
from operations.previews.changes import StackPreview
from operations.previews.redaction import Redaction
from rehearsal import Rehearsal

# The end of an automatic name, another one in every rehearsal.
_AUTOMATIC: Final = re.compile(r"(?<=-)[0-9a-f]{7}(?![0-9A-Za-z])")


def preview(stack: str, target: Path, branch: Path, redaction: Redaction, log: Log) -> StackPreview:
    """What a merge would change of a stack that is as the target branch has it.

    Args:
        stack: Name of the stack.
        target: Checkout of the target branch; without the stack in it everything is new.
        branch: Checkout of the branch.
        redaction: Takes out what must not be seen.
        log: Told what takes long.
    """
    before = target if stack in known_stacks(target) else None
    try:
        with Rehearsal(stack, log=log, checkout=before or branch) as rehearsal:
            if before:
                rehearsal.up()
            rehearsal.move(branch)
            report = rehearsal.report()
    except EngineError as error:
        return StackPreview(stack=stack, failure=redaction.text(str(error)))
    return engine_report.read(stack, _AUTOMATIC.sub("*******", report), redaction)
