"""The shapes of the stacks that add resources, or options of resources, each with its settings."""

from collections.abc import Callable, Mapping
from typing import Final

from tests import plans
from tests.stacks import test_closed_shape

Settings = Mapping[str, str]

_ZONE: Final = "us-central1-b"
_LIST: Final = '["reservation", "flexStart", "spot"]'
_OF_BUILD: Final = ("buildPool", "accounts.build")
_IMAGE: Final = {"imageUri": plans.IMAGE}


def _shipped(stack: str) -> Settings:
    return plans.known_settings(stack, alert_email="me@example.com", **_IMAGE)


def _with_list(stack: str) -> Settings:
    kinds = _LIST if "transport" in plans.keys_of_stack(stack) else '["onDemand", "flexStart", "spot"]'
    known = plans.known_settings(stack, nodes="2", capacity_zone=_ZONE, **_IMAGE)
    return {**known, "capacity_type": kinds}


def _flex_start(stack: str) -> Settings:
    return {**plans.known_settings(stack, maxRunHours="48", **_IMAGE), "capacity_type": "flexStart"}


def _requested(stack: str) -> Settings:
    known = plans.known_settings(stack, nodes="2", maxRunHours="48", **_IMAGE)
    return {**known, "capacity_type": "queuedFlexStart", "capacity_zone": _ZONE}


def _rdma(stack: str) -> Settings:
    reserved = {"capacity_type": "reservation", "capacity_reservation": "one-of-mine"}
    known = plans.known_settings(stack, nodes="2", machine="a4-highgpu-8g", **_IMAGE)
    return {**known, **reserved, "transport": "rdma"}


def _closed(stack: str) -> Settings:
    """The closed shape without a build, whose pods can be looked at."""
    settings = {key: text for key, text in test_closed_shape.settings(stack).items() if key not in _OF_BUILD}
    return {**settings, **plans.known_settings(stack, **_IMAGE)}


# With an image of one's own there is no repository and no build.
SHAPES: Final[Mapping[str, tuple[list[str], Callable[[str], Settings]]]] = {
    "as shipped": (plans.STACKS, _shipped),
    "with a build": (plans.STACKS, lambda _: {}),
    "with a list of capacities": (plans.stacks_with("capacity.minutes"), _with_list),
    "on flex-start": (plans.stacks_with("capacity.type"), _flex_start),
    "with requested nodes": (["a4-accelerate"], _requested),
    "with RDMA": (plans.stacks_with("transport"), _rdma),
    "closed": (plans.STACKS, test_closed_shape.settings),
    "closed, with an image": (plans.STACKS, _closed),
}
