"""Durations, the critical path, and the chart."""

import xml.etree.ElementTree as ElementTree

import pytest

from engine.recorder import Interval
from rehearsal.clock import Clock
from rehearsal.critical_path import critical_path, waits_of, waves
from rehearsal.fake_cloud import Rejected
from rehearsal.timeline import Phase, svg, ticks

CLUSTER = "gcp:container/cluster:Cluster"


def step(name: str, start: float, end: float, *, failed: bool = False) -> Interval:
    return Interval(urn=name, type="gcp:a/b:C", operation="create", start=start, end=end, failed=failed)


def names(path: list[Interval]) -> list[str]:
    return [interval.name for interval in path]


def test_the_path_follows_what_was_waited_for_longest() -> None:
    steps = [
        step("api", 0, 1),
        step("net", 1, 2),
        step("bucket", 1, 1.5),
        step("cluster", 2, 8),
        step("job", 8, 9),
    ]
    waits = {"net": ["api"], "bucket": ["api"], "cluster": ["net", "api"], "job": ["cluster", "bucket"]}
    assert names(critical_path(steps, waits)) == ["api", "net", "cluster", "job"]


def test_the_path_passes_through_what_took_no_time() -> None:
    steps = [step("api", 0, 1), step("job", 1, 2)]
    assert names(critical_path(steps, {"job": ["provider"], "provider": ["api"]})) == ["api", "job"]


def test_a_deletion_waits_for_the_wave_before_it() -> None:
    steps = [step("job", 0, 1), step("secret", 0, 2), step("cluster", 2, 6), step("net", 6, 7)]
    assert names(critical_path(steps, waves(steps))) == ["secret", "cluster", "net"]


def test_an_operation_without_steps_has_no_path() -> None:
    assert critical_path([], {}) == []


def test_a_state_says_what_a_resource_waits_for() -> None:
    resource = {
        "urn": "a",
        "dependencies": ["b"],
        "propertyDependencies": {"x": ["c"], "y": None},
        "provider": "urn:p::pulumi:providers:kubernetes::k::some-id",
    }
    state = {"deployment": {"resources": [resource]}}
    assert waits_of(state) == {"a": ("b", "c", "urn:p::pulumi:providers:kubernetes::k")}


def test_the_default_provider_is_nothing_to_wait_for() -> None:
    resource = {"urn": "a", "provider": "urn:p::pulumi:providers:gcp::default_10_2_0::some-id"}
    assert waits_of({"deployment": {"resources": [resource]}}) == {"a": ()}


def test_a_stopped_clock_ends_the_waiting() -> None:
    clock = Clock(seconds_per_minute=1000)
    clock.stop()
    with pytest.raises(Rejected, match="interrupted"):
        clock.take(CLUSTER, "create", {})


def test_the_chart_is_well_formed_and_marks_the_path_and_the_failure() -> None:
    steps = [step("a<b", 0, 1), step("c", 1, 3), step("d", 0, 1, failed=True)]
    chart = svg("rehearsal of x", "min", [Phase(title="up", intervals=steps, critical=steps[1:2])])
    root = ElementTree.fromstring(chart)
    bars = [
        element.get("class") for element in root.iter("{http://www.w3.org/2000/svg}rect") if element.get("rx")
    ]
    assert sorted(filter(None, bars)) == ["bar", "critical", "failed"]
    assert "a&lt;b" in chart and "3 min" in chart


def test_an_empty_chart_is_well_formed() -> None:
    ElementTree.fromstring(svg("rehearsal of x", "s", []))


def test_ticks_are_round_and_few() -> None:
    assert ticks(7.8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert ticks(0.03) == [0, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03]
