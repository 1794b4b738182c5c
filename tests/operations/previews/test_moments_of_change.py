"""What a reviewer needs at the moment of a change: values, what stays, what it costs, and what to type."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError
from operations.errors import OperationError
from operations.previews import comment, engine_report, sources
from operations.previews.changes import (
    Change,
    HourlyDollars,
    Kind,
    Previews,
    Property,
    RunChange,
    StackPreview,
)
from operations.previews.redaction import Redaction
from operations.previews.setting_changes import setting_changes
from tests.neutral_stacks import NEUTRAL_RUN
from tests.operations.previews.reports import BUCKET, CONFIG_MAP, POOL, report, step

CHANGE = Change(kind=Kind.UPDATE, type="gcp:compute:Network", name="network")
CLUSTER = Change(kind=Kind.REPLACE, type="gcp:container:Cluster", name="the-cluster")
RUN = RunChange(before="old-1", after="new-2")
KEEP = "`pulumi config set run old-1 --stack mine`"
URN = "urn:pulumi:mine::llm-stacks::llm-stacks:components:Bucket$gcp:storage/bucket:Bucket::mine-bucket"
REFUSALS = (
    f'mine-bucket: unable to replace resource "{URN}"\nas it is currently marked for protection. To '
    f"unprotect",
    f'Preview failed: resource "{URN}" cannot be deleted\nbecause it is protected. To unprotect the resource',
)


def preview(**fields: Any) -> StackPreview:
    default = StackPreview(stack="mine", against="main", changes=(CHANGE,), unchanged=5)
    return replace(default, **fields)


def text_of(*stacks: StackPreview) -> str:
    return comment.render(Previews(commit="c" * 40, stacks=stacks), 65_536)


def test_a_run_that_ends_keeps_its_checkpoints_and_the_comment_says_how_to_go_on_with_it() -> None:
    text = text_of(preview(runs=(RUN,)))
    caution = text[: text.index("| stack |")]
    assert "Its checkpoints stay in the bucket." in caution
    assert KEEP in caution
    assert "takes no other values of its recipe" not in caution
    of_recipe = Property(path="recipe training.learning_rate", old="2.0e-4", new="1.0e-4")
    assert "takes no other values of its recipe" in text_of(preview(runs=(RUN,), settings=(of_recipe,)))


@pytest.mark.parametrize("fields", [{"finished": True}, {"after": ""}, {"after": "old-1"}])
def test_a_run_that_is_finished_deleted_or_goes_on_needs_no_command(fields: dict[str, Any]) -> None:
    assert KEEP not in text_of(preview(runs=(replace(RUN, **fields),)))


def test_changed_values_stand_before_the_resources() -> None:
    text = text_of(preview(settings=(Property(path="servingReplicas", old="1", new="2"),)))
    assert text.index("`servingReplicas`: `1` → `2`") < text.index("1 updated")


def test_pools_that_are_replaced_lose_no_checkpoints() -> None:
    lost = text_of(preview(changes=(CLUSTER,)))
    assert "What these hold is lost: `the-cluster`. Checkpoints are in the bucket, which stays." in lost
    bucket = Change(kind=Kind.DELETE, type="gcp:storage:Bucket", name="b")
    assert "which stays" not in text_of(preview(changes=(CLUSTER, bucket)))


@pytest.mark.parametrize(("paths", "warns"), [(("version",), True), (("version", "values.image.tag"), False)])
def test_a_chart_without_its_program_is_a_caution(paths: tuple[str, ...], warns: bool) -> None:
    properties = tuple(Property(path=path, old="0.19.2", new="0.20.0") for path in paths)
    chart = replace(CHANGE, type="kubernetes:helm.sh/v3:Release", name="kueue", properties=properties)
    assert ("Both must be of one release" in text_of(preview(changes=(chart,)))) is warns


def test_without_its_bucket_no_run_goes_on() -> None:
    bucket = Change(kind=Kind.REPLACE, type="gcp:storage:Bucket", name="b")
    same = replace(RUN, after="old-1")
    assert "goes on from its newest checkpoint" not in text_of(preview(changes=(bucket,), runs=(same, same)))
    assert "stay in the bucket" not in text_of(preview(changes=(bucket,), runs=(RUN,)))
    assert text_of(preview(runs=(same, same))).count("goes on from its newest checkpoint") == 1


def test_dollars_an_hour_are_said_before_and_after() -> None:
    text = text_of(preview(dollars=HourlyDollars(before=10.0, after=12.5, partly=True)))
    assert "**10.00 → 12.50** dollars an hour at list prices when everything runs, and more without" in text
    assert "10.00 dollars an hour" in text_of(preview(dollars=HourlyDollars(before=10.0, after=10.0)))


def test_stacks_without_a_change_are_one_line_together() -> None:
    same = [preview(stack=f"same-{number}", changes=()) for number in range(6)]
    text = text_of(preview(), *same)
    (line,) = [line for line in text.splitlines() if "same-0" in line]
    assert all(f"`same-{number}`" in line for number in range(6))


def test_a_change_that_would_delete_the_bucket_says_what_goes_and_names_a_second_stack() -> None:
    text = text_of(preview(changes=(CLUSTER,), protected=("mine-bucket",)))
    assert "the preview failed" not in text
    assert (
        "`up` refuses this change, because it would delete `mine-bucket` with all runs and checkpoints"
        in text
    )
    assert "With it would go: `the-cluster`." in text
    assert "`make new-stack NAME=mine-2 FROM=mine && pulumi stack init mine-2`" in text
    assert "unprotect" not in text
    assert Previews(commit="c", stacks=(preview(protected=("b",)),)).failed


@pytest.mark.parametrize("failure", REFUSALS)
def test_the_engines_refusals_name_the_bucket(failure: str) -> None:
    assert engine_report.protected_in(failure) == ("mine-bucket",)
    assert engine_report.protected_in("the key is wrong") == ()
    assert engine_report.read("mine", report(errors=(failure,)), Redaction()).protected == ("mine-bucket",)


def test_a_refused_change_is_planned_once_more_without_the_protection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []

    def rehearsed(_stack: str, *options: str) -> str:
        asked.append(options)
        if "--set=forceDestroy=true" not in options:
            raise OperationError(REFUSALS[0])
        return report(step("replace", BUCKET, "mine-bucket", old={}, new={}))

    monkeypatch.setattr("operations.plan.rehearsed", rehearsed)
    seen = sources.rehearsed("mine", Path("nowhere"))
    assert (seen.protected, seen.failure, len(seen.changes)) == (("mine-bucket",), "", 1)
    assert len(asked) == 2


def test_where_the_program_knows_no_such_setting_the_refusal_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def rehearsed(_stack: str, *options: str) -> str:
        raise EngineError(REFUSALS[0])

    monkeypatch.setattr("operations.plan.rehearsed", rehearsed)
    seen = sources.rehearsed("mine", Path("nowhere"))
    assert (seen.protected, bool(seen.failure)) == (("mine-bucket",), True)
    assert "`up` refuses this change" in text_of(seen)


def test_a_few_changed_lines_of_a_long_text_are_shown_and_many_are_counted() -> None:
    def shown(old: list[str], new: list[str]) -> Property:
        data = [{"data": {"recipe.yaml": "\n".join(lines)}} for lines in (old, new)]
        reported = report(step("update", CONFIG_MAP, "code", old=data[0], new=data[1]))
        ((prop,),) = [
            change.properties for change in engine_report.read("mine", reported, Redaction()).changes
        ]
        return prop

    rest = [f"line {number}" for number in range(60)]
    prop = shown([*rest, "  learning_rate: 2.0e-4"], [*rest, "  learning_rate: 1.0e-4"])
    assert (prop.old, prop.new) == ("learning_rate: 2.0e-4", "learning_rate: 1.0e-4")
    assert shown(rest, [*rest, "  seed: 7"]).new == "seed: 7"
    assert shown(rest, [f"other {number}" for number in range(60)]).new == "60 lines: 60 new, 60 gone"


SECURE = "  llm-stacks:hfToken:\n    secure: {0}\n"


def checkout(folder: Path, settings: str, learning_rate: str) -> Path:
    recipes = folder / "workloads" / "finetune" / "recipes"
    recipes.mkdir(parents=True)
    (folder / "Pulumi.mine.yaml").write_text(
        f"config:\n  llm-stacks:scenario: {NEUTRAL_RUN}\n  llm-stacks:recipe: mine\n{settings}"
    )
    (recipes / "mine.yaml").write_text(f"training:\n  learning_rate: {learning_rate}\n")
    return folder


def test_values_of_the_stack_file_and_of_its_recipe_are_compared_as_they_are_written(tmp_path: Path) -> None:
    before = checkout(tmp_path / "before", "  gcp:region: us-central1\n" + SECURE.format("v1:one"), "2.0e-4")
    after = checkout(tmp_path / "after", "  gcp:region: europe-west4\n" + SECURE.format("v1:two"), "1.0e-4")
    assert setting_changes("mine", before, after) == (
        Property(path="gcp:region", old="us-central1", new="europe-west4"),
        Property(path="hfToken", old="[secret]", new="[secret]"),
        Property(path="recipe training.learning_rate", old="2.0e-4", new="1.0e-4"),
    )
    assert setting_changes("mine", before, before) == ()
    assert setting_changes("new", before, after) == ()


def test_secrets_in_a_map_or_a_list_are_named_and_never_shown(tmp_path: Path) -> None:
    settings = (
        "  llm-stacks:secrets:\n    TOKEN:\n      secure: v1:{0}\n  llm-stacks:list:\n    - secure: v1:{0}\n"
    )
    before = checkout(tmp_path / "before", settings.format("one"), "1")
    after = checkout(tmp_path / "after", settings.format("two"), "1")
    without = checkout(tmp_path / "without", "", "1")
    assert setting_changes("mine", before, after) == (
        Property(path="list[0]", old="[secret]", new="[secret]"),
        Property(path="secrets.TOKEN", old="[secret]", new="[secret]"),
    )
    added = setting_changes("mine", without, after)
    assert [change.new for change in added] == ["[[secret]]", "{'TOKEN': [secret]}"]


def test_dollars_follow_the_machines_of_a_plan() -> None:
    def machine(kind: str) -> dict[str, object]:
        return {"nodeCount": 2, "nodeConfig": {"machineType": kind}, "nodeLocations": ["us-central1-a"]}

    reported = report(
        step("replace", POOL, "pool", old=machine("e2-standard-2"), new=machine("e2-standard-4"))
    )
    seen = engine_report.read(NEUTRAL_RUN, reported, Redaction()).dollars
    assert seen and 0 < seen.before < seen.after
