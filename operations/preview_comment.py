"""`python -m operations preview-comment`: what a merge request changes, as one comment."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.project import ROOT, known_stacks
from operations.errors import OperationError
from operations.previews import checkout, comment, forges, sources, stack_inputs
from operations.previews.changes import Previews, StackPreview, from_json
from operations.previews.setting_changes import setting_changes

# Bytes. A fork may have saved the file, and the job that reads it can write comments.
_LONGEST: Final = 2_000_000
HELP: Final = "write what a merge request changes, as the text of one comment"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--target",
        metavar="REF",
        help="preview the stacks whose inputs changed since this branch left REF, such as origin/main",
    )
    source.add_argument(
        "--saved", metavar="FILE", type=Path, help="a file that an earlier call wrote with --save"
    )
    source.add_argument(
        "--of-pipeline",
        action="store_true",
        help="the file that the preview job of this GitLab pipeline wrote, from GitLab's API",
    )
    parser.add_argument(
        "--cloud",
        action="store_true",
        help="with --target: preview existing stacks with `pulumi preview` and the credentials of the "
        "environment; all other stacks are rehearsed on top of the target's program",
    )
    parser.add_argument(
        "--commit",
        metavar="SHA",
        help="with --saved or --of-pipeline: reject previews of another commit; if there are none, say that "
        "this commit has no preview",
    )
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="write the previews as JSON, without secrets"
    )
    parser.add_argument(
        "--forge", choices=tuple(forges.LIMITS), default="github", help="whose limit of length holds"
    )
    parser.add_argument("--post", action="store_true", help="put the comment on this job's merge request")


def run(options: argparse.Namespace) -> int:
    """Prints the comment. Returns 1 if a stack has no preview."""
    previews = _previews(options)
    if options.commit and previews.commit != options.commit:
        raise OperationError(f"{options.saved or 'the preview'} is not of commit {options.commit}")
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(previews.model_dump_json(indent=2))
    of_fork = options.post and forges.is_of_fork(options.forge, os.environ)
    text = comment.render(previews, forges.LIMITS[options.forge], of_fork=of_fork)
    print(text, end="")
    if options.post:
        # Standard output is the comment alone.
        print(forges.post(options.forge, os.environ, previews.commit, text), file=sys.stderr)
    return 1 if previews.failed else 0


def _previews(options: argparse.Namespace) -> Previews:
    if options.target:
        return _made(options.target, in_cloud=options.cloud)
    try:
        content = _content(options)
        if content is None:
            # Otherwise the existing comment would still describe an earlier commit.
            failure = "The job ended without a preview: its log says why."
            return Previews(
                commit=options.commit, stacks=(StackPreview(stack="all stacks", failure=failure),)
            )
        if len(content) > _LONGEST:
            raise ValueError(f"longer than {_LONGEST} bytes, which no preview is")
        return from_json(content.decode())
    except (OSError, ValueError) as error:
        raise OperationError(f"{options.saved or 'the preview of this pipeline'}: {error}") from None


def _content(options: argparse.Namespace) -> bytes | None:
    """The saved file, at most a byte more than the longest preview. None if there is no file."""
    if options.of_pipeline:
        return forges.saved_in_pipeline(os.environ, _LONGEST + 1)
    if options.commit and not options.saved.exists():
        return None
    # Reading a pipe would wait, and a link may lead to files that the merge request must not see.
    if options.saved.is_symlink() or not options.saved.is_file():
        missing = "there is no such file" if not options.saved.exists() else "it is no plain file"
        raise ValueError(f"{missing}; name one that --save wrote")
    with options.saved.open("rb") as file:
        return file.read(_LONGEST + 1)


def _made(target: str, *, in_cloud: bool) -> Previews:
    """Previews of the stacks whose inputs changed."""
    base = checkout.merge_base(ROOT, target)
    known = stack_inputs.scenarios(ROOT)
    chosen = stack_inputs.stacks_changed_by(
        checkout.changed_files(ROOT, base), known, stack_inputs.own_places()
    )
    deployed = sources.deployed() if in_cloud else set()
    against = f"{target} ({base[:12]}), rehearsed without a cloud"
    with checkout.exported(ROOT, base) as before:
        stacks = tuple(
            replace(
                sources.in_cloud(stack)
                if stack in deployed
                else replace(sources.rehearsed(stack, before), against=against),
                settings=setting_changes(stack, before),
            )
            for stack in chosen
        )
        removed = tuple(stack for stack in known_stacks(before) if stack not in known)
    return Previews(
        commit=checkout.head(ROOT),
        stacks=stacks,
        untouched=tuple(stack for stack in known if stack not in chosen),
        removed=removed,
    )
