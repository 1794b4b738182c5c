"""How long a stack takes: computed from its plan."""

from typing import Any

from engine.plan import Planned
from rehearsal.schedule import Phase, phases

CLUSTER = "gcp:container/cluster:Cluster"
NETWORK = "gcp:compute/network:Network"
SERVICE = "gcp:projects/service:Service"
COMPONENT = "llm-stacks:components:Part"
PROVIDER = "pulumi:providers:kubernetes"
SECRET = "kubernetes:core/v1:Secret"


def planned(type_token: str, name: str, *dependencies: str, parent: str = "", **options: str) -> Planned:
    inputs = {"enableAutopilot": True} if type_token == CLUSTER else {}
    return Planned(
        type=type_token,
        name=name,
        urn=name,
        parent=parent,
        op="create",
        inputs=inputs,
        dependencies=dependencies,
        options=options,
    )


# Creations take 0.3, 0.35, 6, 0, 0.02 minutes, deletions 0, 0.5, 4, 0, 0.02.
STACK = (
    planned(SERVICE, "api"),
    planned(NETWORK, "network", "api"),
    planned(CLUSTER, "cluster", "network"),
    planned(PROVIDER, "provider", "cluster"),
    planned(SECRET, "secret", "provider"),
)


def spans(phase: Phase) -> dict[str, tuple[float, float]]:
    return {step.name: (round(step.start, 6), round(step.end, 6)) for step in phase.steps}


def names(steps: Any) -> list[str]:
    return [step.name for step in steps]


def test_a_creation_begins_when_what_it_waits_for_has_ended() -> None:
    up, _ = phases(STACK)
    assert spans(up) == {
        "api": (0, 0.3),
        "network": (0.3, 0.65),
        "cluster": (0.65, 6.65),
        "secret": (6.65, 6.67),
    }
    assert names(up.critical_path) == ["api", "network", "cluster", "secret"]


def test_the_path_follows_what_was_waited_for_longest() -> None:
    bucket = planned("gcp:storage/bucket:Bucket", "bucket")
    both = planned(SECRET, "both", "bucket", "provider")
    up, _ = phases([bucket, both, *STACK[:-1]])
    assert names(up.critical_path) == ["api", "network", "cluster", "both"]
    assert spans(up)["bucket"] == (0, 0.1)


def test_nothing_waits_for_its_parent() -> None:
    part = planned(COMPONENT, "part", "cluster")
    up, _ = phases([*STACK, part, planned(NETWORK, "other", parent="part")])
    assert spans(up)["other"] == (0, 0.35)


def test_deletions_go_in_waves_by_how_long_a_chain_each_needs() -> None:
    late = planned(NETWORK, "late", parent="part")
    _, destroy = phases([*STACK, planned(COMPONENT, "part"), late])
    # `late` is as far from the end as `network`: it needs its parent.
    assert spans(destroy) == {
        "secret": (0, 0.02),
        "cluster": (0.02, 4.02),
        "late": (4.02, 4.52),
        "network": (4.02, 4.52),
        "api": (4.52, 4.52),
    }
    assert names(destroy.critical_path) == ["secret", "cluster", "network"]


def test_what_is_deleted_with_another_takes_no_time() -> None:
    secret = planned(SECRET, "secret", "provider", deletedWith="cluster")
    _, destroy = phases([*STACK[:-1], secret])
    assert spans(destroy)["secret"] == (0, 0)
    assert names(destroy.critical_path) == ["cluster", "network"]


def test_an_empty_stack_takes_no_time() -> None:
    assert [(phase.minutes, [*phase.critical_path]) for phase in phases([])] == [(0, []), (0, [])]


def test_the_order_of_the_engine_does_not_matter() -> None:
    assert phases(reversed(STACK)) == phases(STACK)
