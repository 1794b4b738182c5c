"""`python -m operations preview-comment`: what a merge request changes, as one comment."""

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.project import ROOT
from operations.errors import OperationError
from operations.previews import checkout, cloud, comment, engine_report, forges, rehearsed, stack_inputs
from operations.previews.changes import Previews, StackPreview, as_json, from_json
from operations.previews.redaction import Redaction, secret_variables

HELP: Final = "what a merge request changes, as the text of one comment"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--target",
        metavar="REF",
        help="preview the stacks whose inputs changed since this branch left REF, such as origin/main",
    )
    source.add_argument(
        "--report",
        metavar="STACK=FILE",
        action="append",
        help="what `pulumi preview --json` printed; may be repeated",
    )
    source.add_argument("--saved", metavar="FILE", type=Path, help="what an earlier call saved with --save")
    parser.add_argument(
        "--cloud",
        action="store_true",
        help="with --target: stacks that exist are previewed by `pulumi preview`, with the credentials of "
        "the environment; the others, and without it all, on the target's program in the rehearsal",
    )
    parser.add_argument(
        "--commit", metavar="SHA", help="with --saved: refuse previews of any other commit than this one"
    )
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="write the previews as JSON, without secrets"
    )
    parser.add_argument(
        "--forge",
        choices=("github", "gitlab"),
        default="github",
        help="whose limit of length holds",
    )
    parser.add_argument(
        "--post",
        action="store_true",
        help="put the comment on this job's merge request",
    )


def run(options: argparse.Namespace) -> int:
    """Prints the comment; 1 when a stack has no preview."""
    previews = _previews(options)
    if options.commit and previews.commit != options.commit:
        raise OperationError(f"{options.saved} is not of commit {options.commit}")
    if options.save:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(as_json(previews))
    limit = (forges.GitHub if options.forge == "github" else forges.GitLab).LIMIT
    text = comment.render(previews, Redaction(secret_variables(os.environ)), limit)
    print(text, end="")
    if options.post:
        _log(_post(options.forge, previews.commit, text))
    return 1 if previews.failed else 0


def _previews(options: argparse.Namespace) -> Previews:
    if options.saved:
        try:
            return from_json(options.saved.read_text())
        except (OSError, ValueError) as error:
            raise OperationError(f"{options.saved}: {error}") from None
    if options.report:
        stacks = tuple(_reported(text) for text in sorted(options.report))
        return Previews(commit=checkout.head(ROOT), stacks=stacks)
    return _made(options.target, in_cloud=options.cloud)


def _reported(text: str) -> StackPreview:
    stack, equals, file = text.partition("=")
    if not equals:
        raise OperationError(f"--report {text}: write STACK=FILE")
    try:
        return engine_report.read(stack, Path(file).read_text(), Redaction(secret_variables(os.environ)))
    except (OSError, ValueError) as error:
        raise OperationError(f"--report {text}: {error}") from None


def _made(target: str, *, in_cloud: bool) -> Previews:
    """Previews of the stacks whose inputs changed."""
    base = checkout.merge_base(ROOT, target)
    known = stack_inputs.scenarios(ROOT)
    files = checkout.changed_files(ROOT, base)
    chosen = stack_inputs.stacks_changed_by(files, known)
    deployed = cloud.deployed(ROOT) if in_cloud else set()
    stacks = [cloud.preview(stack, ROOT) for stack in chosen if stack in deployed]
    stacks += _rehearsed([stack for stack in chosen if stack not in deployed], target, base)
    return Previews(
        commit=checkout.head(ROOT),
        stacks=tuple(sorted(stacks, key=lambda preview: preview.stack)),
        untouched=tuple(stack for stack in known if stack not in chosen),
        removed=tuple(stack_inputs.stacks_removed_by(files, ROOT)),
    )


def _rehearsed(chosen: Sequence[str], target: str, base: str) -> list[StackPreview]:
    if not chosen:
        return []
    redaction = Redaction(secret_variables(os.environ))
    against = f"{target} ({base[:12]}), rehearsed without a cloud"
    with checkout.exported(ROOT, base) as files:
        previews = [rehearsed.preview(stack, files, redaction) for stack in chosen]
    return [replace(preview, against=against) for preview in previews]


def _post(forge: str, commit: str, text: str) -> str:
    if forge == "gitlab":
        return f"comment {forges.gitlab_merge_request(os.environ).put(text)}"
    pull_request = forges.github_pull_request(os.environ, commit)
    if pull_request is None:
        return f"no comment: no open pull request ends with {commit[:12]}, a newer commit has its own preview"
    return f"comment {pull_request.put(text)}"


def _log(text: str) -> None:
    """Standard output is the comment alone."""
    print(text, file=sys.stderr)
