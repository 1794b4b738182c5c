"""The changelog says what each version replaces and restarts."""

import re
from pathlib import Path

import pytest

from docs_generator import changelog
from engine.project import ROOT, known_stacks
from operations.previews.changes import Change, Kind, Previews, RunChange, StackPreview

JOB = Change(kind=Kind.REPLACE, type="kubernetes:batch/v1:Job", name="a4-finetune")
CODE = Change(kind=Kind.REPLACE, type="kubernetes:core/v1:ConfigMap", name="a4-code")
RECIPE = Change(kind=Kind.REPLACE, type="kubernetes:core/v1:ConfigMap", name="a4-recipe")
ROLE = Change(kind=Kind.DELETE, type="gcp:storage/bucketIAMMember:BucketIAMMember", name="a4-role")
ADDED = Change(kind=Kind.CREATE, type="gcp:storage/bucket:Bucket", name="a4-bucket")


def previews(*stacks: StackPreview, untouched: tuple[str, ...] = ()) -> Previews:
    return Previews(commit="a" * 40, stacks=stacks, untouched=untouched)


def test_a_row_names_what_is_deleted_and_replaced_and_whether_the_run_starts_again() -> None:
    ends = StackPreview(
        stack="a4-ray",
        changes=(JOB, CODE, RECIPE, ROLE, ADDED),
        runs=(RunChange(before="one", after="two"),),
    )
    goes_on = StackPreview(stack="dev", changes=(JOB,), runs=(RunChange(before="one", after="one"),))
    text = changelog.release_table(previews(ends, goes_on, untouched=("l4-kueue",)))
    assert text.splitlines()[2:] == [
        "| `a4-ray` | BucketIAMMember | 2 x ConfigMap, Job | yes, unless the run has a name |",
        "| `dev` | nothing | Job | no, the run goes on |",
        "| `l4-kueue` | nothing | nothing | no |",
    ]


def test_a_stack_without_a_preview_gets_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "previews.json"
    saved.write_text(previews(StackPreview(stack="dev", failure="no engine")).model_dump_json())
    assert changelog.main(str(saved)) == 1
    assert capsys.readouterr().err == "changelog: the preview of dev failed: no engine\n"
    assert changelog.main(str(tmp_path / "absent.json")) == 1


def test_each_release_has_a_row_for_every_stack_of_its_time() -> None:
    newer, *releases = re.split(r"(?m)^## (?!Unreleased)", (ROOT / "CHANGELOG.md").read_text())
    for release in releases[:-1]:  # The first release has no version before it.
        for stack in set(known_stacks()) - set(re.findall(r"New stack `([\w-]+)`", newer)):
            assert f"\n| `{stack}` |" in release, release.splitlines()[0]
        newer += release
    assert releases
