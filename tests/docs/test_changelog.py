"""The changelog says what each version replaces and restarts."""

import re
from pathlib import Path

import pytest

from docs_generator import changelog
from engine.project import ROOT, known_stacks
from operations.previews.changes import Change, Kind, Previews, Property, RunChange, StackPreview

JOB = Change(kind=Kind.REPLACE, type="kubernetes:batch/v1:Job", name="a4-finetune")
CODE = Change(kind=Kind.REPLACE, type="kubernetes:core/v1:ConfigMap", name="a4-code")
RECIPE = Change(kind=Kind.REPLACE, type="kubernetes:core/v1:ConfigMap", name="a4-recipe")
ROLE = Change(kind=Kind.DELETE, type="gcp:storage/bucketIAMMember:BucketIAMMember", name="a4-role")
ADDED = Change(kind=Kind.CREATE, type="gcp:storage/bucket:Bucket", name="a4-bucket")


def previews(*stacks: StackPreview, untouched: tuple[str, ...] = ()) -> Previews:
    return Previews(commit="a" * 40, stacks=stacks, untouched=untouched)


def updated(type_: str, path: str) -> Change:
    return Change(
        kind=Kind.UPDATE, type=type_, name="one", properties=(Property(path=path, old="1", new="2"),)
    )


def rows(*stacks: StackPreview, untouched: tuple[str, ...] = ()) -> list[str]:
    return changelog.release_table(previews(*stacks, untouched=untouched)).splitlines()[2:]


def test_a_row_names_what_is_deleted_replaced_and_updated_and_whether_the_run_starts_again() -> None:
    cluster = updated("gcp:container/cluster:Cluster", "deletionProtection")
    kubernetes = updated("pulumi:providers:kubernetes", "kubeconfig")
    ends = StackPreview(
        stack="ray",
        changes=(JOB, CODE, RECIPE, ROLE, ADDED, cluster, kubernetes),
        runs=(RunChange(before="one", after="two"),),
    )
    goes_on = StackPreview(stack="dev", changes=(JOB,), runs=(RunChange(before="one", after="one"),))
    assert rows(ends, goes_on, untouched=("same",)) == [
        "| `dev` | nothing | `Job` | nothing | the job, whose run goes on |",
        "| `ray` | `BucketIAMMember` | 2 x `ConfigMap`, `Job` | `Cluster` | the run unless it has a name |",
        "| `same` | nothing | nothing | nothing | nothing |",
    ]


@pytest.mark.parametrize(
    ("change", "restarts"),
    [
        (updated("kubernetes:apps/v1:Deployment", "spec.template.spec.containers[0].args"), "the servers"),
        (updated("kubernetes:apps/v1:Deployment", "spec.replicas"), "nothing"),
        (updated("gcp:cloudrunv2:Service", "template.containers[0].image"), "the servers"),
        (updated("gcp:cloudrunv2:Service", "ingress"), "nothing"),
    ],
)
def test_servers_restart_where_their_template_changes(change: Change, restarts: str) -> None:
    (row,) = rows(StackPreview(stack="one", changes=(change,)))
    assert row.endswith(f"| {restarts} |")


def test_a_stack_that_the_earlier_release_did_not_have_has_no_row() -> None:
    assert not rows(StackPreview(stack="new", changes=(ADDED,)))
    assert rows(StackPreview(stack="old", changes=(ADDED,), unchanged=1))


def test_a_stack_without_a_preview_gets_no_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "previews.json"
    saved.write_text(previews(StackPreview(stack="dev", failure="no engine")).model_dump_json())
    assert changelog.main(str(saved)) == 1
    assert capsys.readouterr().err == "changelog: the preview of dev failed: no engine\n"
    assert changelog.main(str(tmp_path / "absent.json")) == 1


def test_each_table_has_a_row_for_every_stack_of_the_version_before_it() -> None:
    """A section names the stacks that are new in it. A fork may have stacks that no section names."""
    first, *later = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text())[:0:-1]
    stacks = new_stacks(first)
    assert stacks and later
    for section in later:
        rows = set(re.findall(r"(?m)^\| `([\w-]+)` \|", section))
        assert rows >= stacks & set(known_stacks()), section.splitlines()[0]
        stacks |= new_stacks(section)


def new_stacks(section: str) -> set[str]:
    """The stacks that a section of the changelog calls new."""
    lists = re.findall(r"New stacks?:?((?:,? `[\w-]+`)+)", section)
    return {stack for names in lists for stack in re.findall(r"[\w-]+", names)}
