"""What the engine prints becomes changes that a person can read."""

import pytest

from operations.previews import engine_report
from operations.previews.changes import Kind, Property, StackPreview
from operations.previews.redaction import Redaction
from tests.operations.previews.reports import BUCKET, CONFIG_MAP, POOL, report, step

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def read(text: str) -> StackPreview:
    return engine_report.read("dev", text, Redaction())


def test_a_replacement_is_one_change_with_what_forces_it() -> None:
    old = {"nodeConfig": {"machineType": "g2-standard-24", "spot": False}}
    new = {"nodeConfig": {"machineType": "g2-standard-24", "spot": True}}
    detailed = {"nodeConfig.spot": {"kind": "update-replace", "inputDiff": True}}
    preview = read(
        report(
            step("delete-replaced", POOL, "pool", old=old),
            step(
                "replace",
                POOL,
                "pool",
                old=old,
                new=new,
                detailedDiff=detailed,
                replaceReasons=["nodeConfig"],
            ),
            step("create-replacement", POOL, "pool", old=old, new=new),
            same=7,
        )
    )
    (change,) = preview.changes
    assert change.kind is Kind.REPLACE
    assert change.properties == (Property(path="nodeConfig.spot", old="false", new="true", forces=True),)
    assert preview.unchanged == 7


def test_deletions_come_first_and_creations_last_whatever_the_engines_order() -> None:
    steps = [
        step("create", POOL, "b", new={}),
        step("update", BUCKET, "c", old={}, new={}),
        step("create", POOL, "a", new={}),
        step("delete", BUCKET, "d", old={}),
        step("replace", BUCKET, "e", old={}, new={}),
        step("same", BUCKET, "f", old={}, new={}),
        step("update", "pulumi:pulumi:Stack", "llm-stacks-dev", old={}, new={}),
    ]
    forward, backward = read(report(*steps)), read(report(*reversed(steps)))
    assert [change.name for change in forward.changes] == ["d", "e", "c", "a", "b"]
    assert forward == backward


@pytest.mark.parametrize("path", ['labels["example.com/team"]', "labels.example.com/team"])
def test_a_key_with_dots_is_found_however_the_provider_writes_it(path: str) -> None:
    detailed = {path: {"kind": "update", "inputDiff": True}}
    old, new = {"labels": {"example.com/team": "a"}}, {"labels": {"example.com/team": "b"}}
    (change,) = read(report(step("update", BUCKET, "b", old=old, new=new, detailedDiff=detailed))).changes
    assert [(each.old, each.new) for each in change.properties] == [("a", "b")]


def test_without_details_the_differences_are_looked_up() -> None:
    old, new = {"a": [1, 2], "b": 1, "c": "x"}, {"a": [1, 3], "b": 1, "c": "y"}
    (change,) = read(report(step("update", BUCKET, "b", old=old, new=new, diffReasons=["a"]))).changes
    assert change.properties == (Property(path="a[1]", old="2", new="3"),)


def test_what_is_not_known_yet_says_so() -> None:
    new = {"network": UNKNOWN, "members": [UNKNOWN]}
    (change,) = read(report(step("create", BUCKET, "b", new=new))).changes
    shown = {each.path: each.new for each in change.properties}
    assert shown == {"network": "(known after apply)", "members": '["(known after apply)"]'}


def test_of_a_long_text_only_the_extent_of_its_change_is_told() -> None:
    detailed = {'data["train.py"]': {"kind": "update-replace", "inputDiff": True}}
    old, new = {"data": {"train.py": "a\nb\nc\n"}}, {"data": {"train.py": "a\nx\nc\nd\n"}}
    (change,) = read(
        report(step("replace", CONFIG_MAP, "c", old=old, new=new, detailedDiff=detailed))
    ).changes
    assert [(each.old, each.new) for each in change.properties] == [("3 lines", "4 lines: 2 new, 1 gone")]


def test_a_resource_that_goes_with_its_cluster_says_so() -> None:
    (change,) = read(
        report(step("replace", CONFIG_MAP, "c", old={}, new={}, replaceReasons=["provider"]))
    ).changes
    assert change.reason == "its provider is replaced, as the cluster that it lives in is"


def test_an_error_of_the_engine_is_the_failure_once_and_without_secrets() -> None:
    token = "hf_" + "AbCdEfGhIjKlMnOpQrSt"
    preview = read(report(errors=("bad " + token, "bad " + token)))
    assert preview == StackPreview(stack="dev", failure="bad [secret]")


@pytest.mark.parametrize("text", ["", "opaque", "[]", '{"steps": [{"op": "create", "secret": "opaque"}]}'])
def test_another_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        read(text)
    assert "opaque" not in str(raised.value)
    assert "pulumi preview --json" in str(raised.value)


def test_a_token_at_the_place_where_a_value_is_cut_does_not_come_out_in_part() -> None:
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    for before in range(120, 175):
        value = "x" * (before - 1) + " " + token
        (change,) = read(report(step("create", BUCKET, "b", new={"description": value}))).changes
        assert "hf_" not in change.properties[0].new
