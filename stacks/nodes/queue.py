"""Kueue, in the scenarios with a queue."""

from collections.abc import Mapping, Sequence

import pulumi

from components.capacity.capacity_keeper import CapacityKeeper, CapacityKeeperArgs
from components.cloud_build.context import base_image
from components.image.image import Image
from components.queue.kueue import Kueue, KueueArgs
from components.queue.queue import Queue
from stacks import pins
from stacks.platform import WORKLOADS, GkePlatform, StackContext


def images_of_kueue(stack: StackContext) -> list[Image]:
    """The images that the nodes of a cluster with Kueue pull for it and for the keeper of its queue."""
    return [_reachable(stack, pins.KUEUE_IMAGE), keeper_image(stack)]


def keeper_image(stack: StackContext) -> Image:
    """The base of the training image, without the packages of the training."""
    return _reachable(stack, base_image(WORKLOADS / "finetune"))


def _reachable(stack: StackContext, uri: str) -> Image:
    return stack.reachable(Image.parse(stack.project.mirrored(uri)))


def declare_keeper(
    stack: StackContext,
    platform: GkePlatform,
    kueue: Kueue,
    queue: Queue,
    minutes: Mapping[str, int],
) -> pulumi.Resource:
    """Declares the keeper of a queue's capacities, for which its jobs wait. See `CapacityKeeperArgs`.

    It runs the base of the training image, because a package of the training must not get its token.
    """
    args = CapacityKeeperArgs(
        kueue=kueue,
        namespace=platform.namespace,
        queue=queue.queue_name,
        image=keeper_image(stack),
        minutes=minutes,
        depends_on=queue.access,
    )
    return CapacityKeeper(stack.name, args).access


def declare_kueue(
    stack: StackContext,
    platform: GkePlatform,
    *,
    frameworks: Sequence[str],
    ready_minutes: int,
    uncounted: Sequence[str] = (),
    devices: Mapping[str, str] | None = None,
    depends_on: Sequence[pulumi.Resource] = (),
) -> Kueue:
    """Declares Kueue for the workloads of the namespace. For the arguments see `KueueArgs`."""
    return Kueue(
        stack.name,
        KueueArgs(
            cluster=platform.cluster,
            version=pins.KUEUE_VERSION,
            image=stack.project.mirrored(pins.KUEUE_IMAGE),
            namespaces=[platform.namespace.namespace],
            frameworks=frameworks,
            uncounted=uncounted,
            devices=devices or {},
            ready_minutes=ready_minutes,
            depends_on=[*platform.subnet.egress, *platform.cluster.pulls, *depends_on],
        ),
    )
