"""Where accelerator nodes come from, and the fields and labels that say so to GKE."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import pulumi_gcp as gcp

from cloud.accelerators import GPU_DRIVER
from cloud.machines import Machine

# A node that flex-start provisions lives at most 7 days.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws
FLEX_START_MAX_HOURS: Final = 168
# Hours that a job and a machine get on top of the run's training hours: for the start of nodes, for image
# pulls and for lost attempts.
ALLOWANCE_HOURS: Final = 2

NOT_EVICTED: Final[Mapping[str, str]] = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}

_NAME: Final = r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?"
# Excludes domain-scoped projects such as `example.com:my-project`: a node label cannot hold the colon.
_PROJECT: Final = r"[a-z][a-z0-9-]{4,28}[a-z0-9]"
_PATH: Final = re.compile(
    rf"(?:projects/(?P<project>{_PROJECT})/reservations/)?(?P<name>{_NAME})"
    rf"(?:/reservationBlocks/(?P<block>{_NAME})(?:/reservationSubBlocks/(?P<sub_block>{_NAME}))?)?"
)


class CapacityType(StrEnum):
    """How capacity is obtained, in the spelling of the setting `capacity.type`."""

    RESERVATION = "reservation"
    ON_DEMAND = "onDemand"
    SPOT = "spot"
    FLEX_START = "flexStart"
    QUEUED_FLEX_START = "queuedFlexStart"


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """A specific Compute Engine reservation.

    Args:
        project: Project that shares the reservation. None means the stack's own project.
        block: One block of the reservation (A4 and newer). None means any.
        sub_block: One sub-block of the block. None means any.
    """

    name: str
    project: str | None = None
    block: str | None = None
    sub_block: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Reservation":
        """Reads `[projects/P/reservations/]R[/reservationBlocks/B[/reservationSubBlocks/S]]`.

        Raises:
            ValueError: If the text has another shape.
        """
        path = _PATH.fullmatch(text)
        if not path:
            raise ValueError(
                f"{text!r} is neither the name of a reservation nor "
                "projects/PROJECT/reservations/NAME[/reservationBlocks/BLOCK]"
            )
        return cls(**path.groupdict())

    @property
    def path(self) -> str:
        """The reservation as a node pool names it: a short name in the own project, a path if shared."""
        parts = {"reservationBlocks": self.block, "reservationSubBlocks": self.sub_block}
        shared = f"projects/{self.project}/reservations/" if self.project else ""
        return shared + self.name + "".join(f"/{kind}/{part}" for kind, part in parts.items() if part)

    @property
    def in_class(self) -> dict[str, Any]:
        """The reservation as a rule of a `ComputeClass` names it."""
        project = {"project": self.project} if self.project else {}
        sub_block = {"reservationSubBlock": {"name": self.sub_block}} if self.sub_block else {}
        block = {"reservationBlock": {"name": self.block, **sub_block}} if self.block else {}
        return {"name": self.name, **project, **block}


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """The capacity that accelerator nodes run on. No other place knows how GKE spells it.

    Args:
        reservation: The reservation. Required with type `reservation`, refused with every other type.

    Raises:
        ValueError: If type and reservation do not belong together.
    """

    type: CapacityType
    reservation: Reservation | None = None

    def __post_init__(self) -> None:
        if self.type is CapacityType.RESERVATION and self.reservation is None:
            raise ValueError(
                "missing, and capacity.type is reservation; name the reservation with `pulumi config set "
                "capacity.reservation MY_RESERVATION`, or choose capacity.type spot, flexStart or onDemand"
            )
        if self.type is not CapacityType.RESERVATION and self.reservation is not None:
            raise ValueError(
                f"only capacity.type reservation consumes a reservation, and {self.type} would ignore it; "
                "remove capacity.reservation or set capacity.type to reservation"
            )

    def pod_selectors(self) -> Mapping[str, str]:
        """Node selector entries that give a pod this capacity on Autopilot.

        A label value cannot hold the `/` of a reservation's path, so each part has its own label.
        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations
        """
        if self.type is CapacityType.SPOT:
            return {"cloud.google.com/gke-spot": "true"}
        if self.flex_start:
            return {"cloud.google.com/gke-flex-start": "true"}
        if self.reservation is None:
            return {}
        parts = {
            "cloud.google.com/reservation-project": self.reservation.project,
            "cloud.google.com/reservation-blocks": self.reservation.block,
            "cloud.google.com/reservation-subblocks": self.reservation.sub_block,
        }
        return {
            "cloud.google.com/reservation-affinity": "specific",
            "cloud.google.com/reservation-name": self.reservation.name,
            **{label: part for label, part in parts.items() if part},
        }

    def pod_annotations(self) -> Mapping[str, str]:
        """Annotations that stop the autoscaler from evicting the pod. Empty on spot capacity.

        On Autopilot they hold for 7 days: assumption extended-duration-accelerators.
        https://docs.cloud.google.com/kubernetes-engine/docs/how-to/extended-duration-pods
        """
        return {} if self.type is CapacityType.SPOT else NOT_EVICTED

    @property
    def flex_start(self) -> bool:
        """Whether machines start only when pods request them."""
        return self.type is CapacityType.FLEX_START or self.queued

    @property
    def queued(self) -> bool:
        """Whether the machines of a job start all together, when all of them are free."""
        return self.type is CapacityType.QUEUED_FLEX_START

    def class_rule(self, machine: Machine, *, minutes: int, zone: str | None) -> dict[str, Any]:
        """The rule of a `ComputeClass` by which GKE creates nodes of this capacity.

        https://docs.cloud.google.com/kubernetes-engine/docs/reference/crds/computeclass

        Args:
            minutes: Time after which GKE gives up a machine that flex-start has not brought. With the other
                kinds GKE knows at once.
            zone: Zone of the nodes. None means any, or the reservation's.
        """
        gpus = {"type": machine.accelerator, "count": machine.count, "driverVersion": GPU_DRIVER}
        rule: dict[str, Any] = {"machineType": machine.name, "gpu": gpus}
        if self.type is CapacityType.SPOT:
            rule["spot"] = True
        if self.flex_start:
            rule |= {"flexStart": {"enabled": True}, "capacityCheckWaitTimeSeconds": minutes * 60}
        if self.reservation:
            rule["reservations"] = {"affinity": "Specific", "specific": [self.reservation.in_class]}
        elif zone:
            rule["location"] = {"zones": [zone]}
        return rule

    def deadline_hours(self, run_hours: int | None) -> int | None:
        """Hours after which Kubernetes ends the job of a run that may train for `run_hours`; None for never.

        The deadline is for a run that does not end by itself. It includes the wait for machines. With
        flex-start that wait takes up to 7 days, and with spot it has no limit, so these have no deadline.
        """
        waits = self.type is CapacityType.SPOT or self.flex_start
        return None if waits else self.machine_hours(run_hours)

    def machine_hours(self, run_hours: int | None) -> int | None:
        """Hours that a machine is needed for a run that may train for `run_hours`. None means no limit."""
        hours = None if run_hours is None else run_hours + ALLOWANCE_HOURS
        return min(hours or FLEX_START_MAX_HOURS, FLEX_START_MAX_HOURS) if self.flex_start else hours

    def node_config(self, run_hours: int | None = None) -> dict[str, Any]:
        """Arguments of `NodePoolNodeConfigArgs` that give the nodes of a pool this capacity.

        Args:
            run_hours: Hours that a run may train. A node lives some hours longer. None means no limit.
        """
        # A request for queued machines says for how long. The autoscaler refuses pools of its own that say it
        # too: https://github.com/GoogleCloudPlatform/cluster-autoscaler
        # (pkg/autoprovisioning/injection.go, line 1483, 2026-08-21).
        max_hours = None if self.queued else self.machine_hours(run_hours)
        return {
            "spot": self.type is CapacityType.SPOT,
            "flex_start": self.flex_start,
            "max_run_duration": f"{max_hours * 3600}s" if max_hours else None,
            # Flex-start and TPU pools must state that they use no reservation. Every other pool states it
            # too, so that it takes no machine out of a reservation that it does not name.
            "reservation_affinity": gcp.container.NodePoolNodeConfigReservationAffinityArgs(
                consume_reservation_type="SPECIFIC_RESERVATION" if self.reservation else "NO_RESERVATION",
                key="compute.googleapis.com/reservation-name" if self.reservation else None,
                values=[self.reservation.path] if self.reservation else None,
            ),
        }
