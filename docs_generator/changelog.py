"""Prints what `up` does to stacks that an earlier release created: `make changelog TARGET=COMMIT`.

The table comes from the plans of both versions, rehearsed without a cloud. `make preview` writes them.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Final

from docs_generator.parts import table
from operations.previews.changes import Change, Kind, Previews, StackPreview, from_json

# The property that describes the pods or instances of a server, by the type that has it.
_SERVER_TEMPLATES: Final = {
    "kubernetes:apps/v1:Deployment": "spec.template",
    "gcp:cloudrunv2:Service": "template",
}


def main(previews_file: str) -> int:
    """Prints the table of the previews that `preview-comment --save` wrote. Returns the exit status."""
    try:
        previews = from_json(Path(previews_file).read_text())
        print(release_table(previews))
    except (OSError, ValueError) as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    return 0


def release_table(previews: Previews) -> str:
    """A row for each stack that the earlier release had: what `up` deletes, replaces, updates and restarts.

    Raises:
        ValueError: If a stack has no preview.
    """
    for preview in previews.stacks:
        if preview.failure:
            raise ValueError(f"the preview of {preview.stack} failed: {preview.failure}")
    rows = [_row(preview) for preview in previews.stacks if not _is_new(preview)]
    rows += [_row(StackPreview(stack=stack)) for stack in previews.untouched]
    return table("stack", "deletes", "replaces", "updates", "restarts", rows=sorted(rows))


def _row(preview: StackPreview) -> list[str]:
    kinds = (Kind.DELETE, Kind.REPLACE, Kind.UPDATE)
    return [f"`{preview.stack}`", *(_types(preview, kind) for kind in kinds), _restarts(preview)]


def _is_new(preview: StackPreview) -> bool:
    """Whether the earlier release had nothing of this stack."""
    return not preview.unchanged and all(change.kind == Kind.CREATE for change in preview.changes)


def _types(preview: StackPreview, kind: Kind) -> str:
    """Counted types, such as two Jobs and a ConfigMap, without Pulumi's own resources."""
    types = [change.type for change in preview.of(kind) if not change.type.startswith("pulumi:")]
    counts = Counter(type_.rpartition(":")[2] for type_ in types)
    names = [f"{count} x `{name}`" if count > 1 else f"`{name}`" for name, count in sorted(counts.items())]
    return ", ".join(names) or "nothing"


def _restarts(preview: StackPreview) -> str:
    """What begins again: the run at step 0, the job of a run that goes on, the servers."""
    restarts = []
    if any(not run.goes_on for run in preview.runs):
        restarts.append("the run unless it has a name")
    elif preview.runs:
        restarts.append("the job, whose run goes on")
    if any(_restarts_servers(change) for change in preview.of(Kind.UPDATE)):
        restarts.append("the servers")
    return ", and ".join(restarts) or "nothing"


def _restarts_servers(change: Change) -> bool:
    """Whether a Deployment or a Cloud Run service gets new pods or instances."""
    template = _SERVER_TEMPLATES.get(change.type)
    return any(property_.path.startswith(f"{template}.") for property_ in change.properties)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
