"""What the engine prints becomes changes that a person can read."""

from typing import Any

import pytest

from operations.errors import OperationError
from operations.previews import engine_report
from operations.previews.changes import Change, Kind, Property, StackPreview
from operations.previews.redaction import Redaction
from tests.operations.previews.reports import BUCKET, CONFIG_MAP, JOB, POOL, report, step

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"


def read(text: str) -> StackPreview:
    return engine_report.read("dev", text, Redaction())


def change(*words: str, old: Any = None, new: Any = None, **rest: Any) -> Change:
    """The only change of a report with one step."""
    (changed,) = read(report(step(*words, old=old, new=new, **rest))).changes
    return changed


def test_a_replacement_is_one_change_with_what_forces_it() -> None:
    states: dict[str, Any] = {
        "old": {"nodeConfig": {"machineType": "g2-standard-24", "spot": False}},
        "new": {"nodeConfig": {"machineType": "g2-standard-24", "spot": True}},
    }
    detailed = {"nodeConfig.spot": {"kind": "update-replace", "inputDiff": True}}
    preview = read(
        report(
            step("delete-replaced", POOL, "pool", old=states["old"]),
            step("replace", POOL, "pool", **states, detailedDiff=detailed, replaceReasons=["nodeConfig"]),
            step("create-replacement", POOL, "pool", **states),
            same=7,
        )
    )
    forced = Property(path="nodeConfig.spot", old="false", new="true", forces=True)
    assert preview.changes == (
        Change(kind=Kind.REPLACE, type="gcp:container:NodePool", name="pool", properties=(forced,)),
    )
    assert preview.unchanged == 7


@pytest.mark.parametrize(
    ("op", "before", "after", "expected"),
    [
        ("replace", "old-1", "new-2", [("old-1", "new-2")]),
        ("update", "old-1", "new-2", [("old-1", "new-2")]),
        ("replace", "old-1", "old-1", [("old-1", "old-1")]),
        ("update", "old-1", "old-1", []),
        ("delete", "old-1", None, [("old-1", "")]),
        ("create", None, "new-2", []),
        ("create-replacement", "old-1", "new-2", []),
    ],
)
def test_a_run_that_ends_or_goes_on_is_read_from_the_command_of_its_job(
    op: str, before: str | None, after: str | None, expected: list[tuple[str, str]]
) -> None:
    commands = (
        lambda run: {"entrypoint": f"python -m finetune ray --run {run} --workers 16"},
        lambda run: {"args": ["torchrun", f"--run={run}"]},
        lambda run: {"commands": ["--run", run]},
    )
    for command in commands:
        old, new = ({"spec": command(run)} if run else None for run in (before, after))
        preview = read(report(step(op, JOB, "job", old=old, new=new)))
        assert [(change.before, change.after) for change in preview.runs] == expected


def test_code_that_speaks_of_runs_is_no_run() -> None:
    code = {"data": {"checkpoint.py": "give this one a --run of its own"}}
    assert not read(report(step("replace", CONFIG_MAP, "code", old=code, new=code))).runs


def test_changes_are_told_by_kind_whatever_the_engines_order() -> None:
    steps = [
        step("create", POOL, "b", new={}),
        step("update", BUCKET, "c", old={}, new={}),
        step("import", POOL, "a", new={}),
        step("delete", BUCKET, "d", old={}),
        step("import-replacement", BUCKET, "e", old={}, new={}),
        step("same", BUCKET, "f", old={}, new={}),
        step("update", "pulumi:pulumi:Stack", "llm-stacks-dev", old={}, new={}),
    ]
    for preview in read(report(*steps)), read(report(*reversed(steps))):
        assert [[prop.name for prop in preview.of(kind)] for kind in Kind] == [
            ["d"],
            ["e"],
            ["c"],
            ["a", "b"],
        ]


@pytest.mark.parametrize("path", ['labels["example.com/team"]', "labels.example.com/team"])
def test_a_key_with_dots_is_found_however_the_provider_writes_it(path: str) -> None:
    old, new = {"labels": {"example.com/team": "a"}}, {"labels": {"example.com/team": "b"}}
    detailed = {path: {"kind": "update", "inputDiff": True}}
    changed = change("update", BUCKET, "b", old=old, new=new, detailedDiff=detailed)
    assert [(prop.old, prop.new) for prop in changed.properties] == [("a", "b")]


def test_without_details_the_differences_are_looked_up() -> None:
    old, new = {"a": [1, 2], "b": 1, "c": "x"}, {"a": [1, 3], "b": 1, "c": "y"}
    changed = change("update", BUCKET, "b", old=old, new=new, diffReasons=["a"])
    assert changed.properties == (Property(path="a[1]", old="2", new="3"),)


def test_what_is_not_known_yet_says_so() -> None:
    changed = change("create", BUCKET, "b", new={"network": UNKNOWN, "members": [UNKNOWN], "__defaults": []})
    shown = {prop.path: prop.new for prop in changed.properties}
    assert shown == {"network": "(known after apply)", "members": '["(known after apply)"]'}


def test_of_a_text_that_changes_much_only_the_extent_of_its_change_is_told() -> None:
    detailed = {'data["train.py"]': {"kind": "update-replace", "inputDiff": True}}
    old, new = {"data": {"train.py": "a\nb\nc\n"}}, {"data": {"train.py": "a\nt\nu\nv\nw\nx\nc\nd\n"}}
    changed = change("replace", CONFIG_MAP, "c", old=old, new=new, detailedDiff=detailed)
    assert [(prop.old, prop.new) for prop in changed.properties] == [("3 lines", "8 lines: 6 new, 1 gone")]


def test_a_resource_that_goes_with_its_cluster_says_so() -> None:
    changed = change("replace", CONFIG_MAP, "c", old={}, new={}, replaceReasons=["provider"])
    assert changed.reason == "its provider is replaced, as the cluster that it lives in is"


def test_an_error_of_the_engine_is_the_failure_once_and_without_secrets() -> None:
    errors = ("bad " + TOKEN, "bad " + TOKEN)
    assert read(report(errors=errors)) == StackPreview(stack="dev", failure="bad [secret]")


@pytest.mark.parametrize("text", ["", "opaque"])
def test_another_text_is_rejected_and_not_repeated(text: str) -> None:
    with pytest.raises(OperationError, match="the engine's report is no JSON") as raised:
        read(text)
    assert "opaque" not in str(raised.value)


def test_a_token_at_the_place_where_a_value_is_cut_does_not_come_out_in_part() -> None:
    for before in range(120, 175):
        changed = change("create", BUCKET, "b", new={"description": "x" * (before - 1) + " " + TOKEN})
        assert "hf_" not in changed.properties[0].new


def test_what_the_program_warns_of_is_kept_once_and_without_secrets() -> None:
    warned = ("warning: invokers has allUsers\n", "invokers has allUsers\n", "made with opaque-secret")
    changed = engine_report.read("dev", report(warnings=warned), Redaction(["opaque-secret"]))
    assert changed.warnings == ("invokers has allUsers", "made with [secret]")
