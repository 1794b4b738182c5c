"""Prints what a release does to stacks that an earlier release created: `make changelog TARGET=v0.1.0`.

The table comes from the plans of both versions, rehearsed without a cloud. `make preview` writes them.
"""

import sys
from collections import Counter
from pathlib import Path

from docs_generator.parts import table
from operations.previews.changes import Kind, Previews, StackPreview, from_json


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
    """A row for each stack: what is deleted and replaced, and whether its run starts again.

    Raises:
        ValueError: If a stack has no preview.
    """
    for preview in previews.stacks:
        if preview.failure:
            raise ValueError(f"the preview of {preview.stack} failed: {preview.failure}")
    rows = [
        [f"`{preview.stack}`", _types(preview, Kind.DELETE), _types(preview, Kind.REPLACE), _restart(preview)]
        for preview in previews.stacks
    ]
    rows += [[f"`{stack}`", "nothing", "nothing", "no"] for stack in previews.untouched]
    return table("stack", "deletes", "replaces", "restarts", rows=sorted(rows))


def _types(preview: StackPreview, kind: Kind) -> str:
    """Counted types such as `2 x Job, ConfigMap`."""
    counts = Counter(change.type.rpartition(":")[2] for change in preview.of(kind))
    names = [f"{count} x {name}" if count > 1 else name for name, count in sorted(counts.items())]
    return ", ".join(names) or "nothing"


def _restart(preview: StackPreview) -> str:
    ends = [run for run in preview.runs if not run.goes_on]
    if ends:
        return "yes, unless the run has a name"
    return "no, the run goes on" if preview.runs else "no"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
