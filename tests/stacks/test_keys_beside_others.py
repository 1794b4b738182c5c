"""A key that another setting makes useless is refused, or `up` warns of it."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import pytest

from stacks.settings.reader import SettingsError
from tests import plans
from tests.stacks.configuration import of_stack
from tests.stacks.test_every_key_works import FACTS, FROM_A_LIST, IN_A_SUBNET, needed, values_for

OF_A_BUILD: Final = ("accounts.build", "buildPool", "buildRegion", "extraRequirements", "registry")
OF_A_SERVER: Final = (
    *("accounts.serve", "ingress", "invokers", "maxInstances", "minInstances", "serveNotGood"),
    *("servingImage", "servingModel", "servingReplicas", "vllmArguments"),
)
OF_NODES: Final = ("capacity.minutes", "capacity.reservation", "machineType", "minNodes", "nodes", "zones")
OF_A_TRAINING: Final = ("idleMinutes", "maxRunHours", "recipeSet", "resume", "trial", "waitForTraining")
RESERVED: Final = {"capacity.type": "reservation", "capacity.reservation": "one-of-mine"}
# Settings, and keys of which one could think that they then do nothing.
BESIDE: Final[list[tuple[dict[str, str], tuple[str, ...]]]] = [
    ({"imageUri": plans.IMAGE}, OF_A_BUILD),
    ({"servingImage": plans.IMAGE}, ("registry",)),
    *(({"serve": what}, OF_A_SERVER) for what in ("nothing", "run", "hub")),
    ({"servingReplicas": "0"}, OF_A_SERVER),
    ({"clusterMode": "autopilot"}, OF_NODES),
    *(({"egress": where}, ("internalRanges",)) for where in ("open", "https", "googleAndHub")),
    (IN_A_SUBNET, ("ownNetwork.machines", "ownNetwork.pods", "ownNetwork.services")),
    ({"bucket": "gs://bucket-of-the-team"}, ("bucketName", "forceDestroy")),
    ({"rayCluster": "shared"}, OF_A_TRAINING),
    *((capacity, OF_NODES) for capacity in (RESERVED, FROM_A_LIST, {"capacity.type": "spot"})),
    ({"nodes": "1"}, ("launcher", "transport")),
    ({"tries": "1"}, ("stopExitCodes",)),
]

# Keys that a stack file keeps while another value of `serve` is tried. docs/settings.md says so at the key.
DOCUMENTED: Final = [("l4-kueue", {"serve": "run"}, "servingModel")]


def cases() -> Iterator[tuple[str, dict[str, str], str]]:
    for stack in plans.STACKS:
        for context, keys in BESIDE:
            for key in keys:
                documented = (stack, context, key) in DOCUMENTED
                if plans.keys_of_stack(stack) >= {*context, key} and not documented:
                    yield stack, context, key


def parameters() -> Iterator[Any]:
    for stack, context, key in cases():
        is_quick = (stack, key, "imageUri" in context) == ("tpu-maxtext", "registry", True)
        name = "-".join((stack, *context.values(), key))
        yield pytest.param(stack, context, key, marks=[] if is_quick else [pytest.mark.slow], id=name[-90:])


@pytest.mark.parametrize(("stack", "context", "key"), [*parameters()])
def test_a_key_beside_another_is_refused_or_does_something(
    stack: str, context: dict[str, str], key: str
) -> None:
    before = {**needed(stack, key), **context}
    accepted = []
    with suppress(SettingsError):
        stands = of_stack(stack, before)
        for value in values_for(stack, key, context):
            if of_stack(stack, {**before, key: value}) != stands:
                accepted.append({**before, key: value})
    if accepted:
        # What follows from Google's answers, such as the arguments of a server of a run, only an `up` shows.
        different = (
            facts(stack, tuple(after.items())) != facts(stack, tuple(before.items()))
            for facts in FACTS
            for after in accepted
        )
        assert any(different), f"{key} of {stack} does nothing beside {context}"
