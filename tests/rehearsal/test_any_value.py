"""The checks answer and do not raise, for any value at any place in the inputs of a stack's plan."""

from collections.abc import Iterator
from typing import Any

import pytest

from cloud.inputs import UNKNOWN
from engine.plan import Plan, Planned
from rehearsal import plan_checks
from rehearsal.rules.schema import _declared, args_class
from tests.rehearsal import right
from tests.rehearsal.asking import Platform

VALUES = ("many", None, ["many"], -1, UNKNOWN)
# The plans of the stacks have no pool that is scaled, nor every property that there is.
MORE = {
    right.NODE_POOL: {"autoscaling": {"totalMinNodeCount": 0, "totalMaxNodeCount": 4, "minNodeCount": 0}},
    right.BUCKET: {"lifecycleRules": [{"action": {"type": "SetStorageClass", "storageClass": "NEARLINE"}}]},
}


def places(node: Any, above: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value in a tree."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for step, below in items:
        yield (*above, step)
        yield from places(below, (*above, step))


def put(node: Any, place: tuple[str | int, ...], value: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return value
    step, *rest = place
    copied = node.copy()
    copied[step] = put(node[step], tuple(rest), value)
    return copied


def variants(type_token: str) -> Iterator[dict[str, Any]]:
    """The inputs of all resources of a type, with one value changed. Similar places count once."""
    planned = [inputs for row_type, inputs in right.rows() if row_type == type_token]
    more = {**planned[-1], **MORE.get(type_token, {})}
    seen = set()
    for inputs in [*planned, more]:
        for place in places(inputs):
            like = tuple("[]" if isinstance(step, int) else step for step in place)
            if like not in seen:
                seen.add(like)
                yield from (put(inputs, place, value) for value in VALUES)


@pytest.mark.parametrize("type_token", right.types("gcp"))
def test_google_s_provider_accepts_or_rejects_any_value_anywhere(type_token: str) -> None:
    platform, cls = Platform(), args_class(type_token)
    assert cls
    inputs_of_type = right.RIGHT[type_token]
    for inputs in variants(type_token):
        platform.check(type_token, "x", inputs)
    for name in _declared(cls):
        for value in VALUES:
            platform.check(type_token, "x", {**inputs_of_type, name: value})


@pytest.mark.parametrize("type_token", right.types("kubernetes"))
def test_a_kubernetes_object_is_accepted_or_rejected_with_any_value_anywhere(type_token: str) -> None:
    for inputs in variants(type_token):
        resource = Planned(
            type=type_token, name="x", urn="u", parent="", op="create", inputs=inputs, dependencies=()
        )
        plan_checks.problems(Plan(resources=(resource,), changes={}))


@pytest.mark.parametrize("value", ["many", ["many"], -1])
@pytest.mark.parametrize("below", [False, True], ids=["metadata", "annotations"])
def test_an_object_is_not_named_where_no_name_can_be(value: Any, below: bool) -> None:
    wrong = {**right.RIGHT[right.CONFIG_MAP], "metadata": {"annotations": value} if below else value}
    checked, reasons = Platform().check(right.CONFIG_MAP, "x", wrong)
    assert checked == wrong
    assert reasons
