"""Capacities in the order in which they are tried."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cloud.machines import Machine
from components.cluster.capacity import Capacity, CapacityType

# Google's own sample of such a job waits up to 1,320 s for a node with B200. With flex-start a node may take
# hours.
# https://github.com/GoogleCloudPlatform/AIHypercomputerSamples (gpu/tuning/verl_rl_autopilot)
_MINUTES: Final = {CapacityType.FLEX_START: 240}
_OTHER_MINUTES: Final = 30
# A `ComputeClass` accepts at most a day.
MOST_MINUTES: Final = 1440
# Name of the only class, if GKE itself goes from one capacity to the next.
_CLASS: Final = "accelerators"


def default_minutes(kind: CapacityType) -> int:
    """Minutes for which a capacity is tried."""
    return _MINUTES.get(kind, _OTHER_MINUTES)


@dataclass(frozen=True, kw_only=True)
class NodeClass:
    """A `ComputeClass`: its name, and the rules by which GKE creates its nodes, in their order."""

    name: str
    rules: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class CapacityChain:
    """One capacity or several, in the order in which they are tried.

    Args:
        minutes: Time for which each is tried, if there are several.
        zone: Zone of the nodes that come from no reservation. None means any.
        always_class: Whether pods choose a class even if there is one capacity: labels cannot say what they
            need of their nodes.
    """

    capacities: tuple[Capacity, ...]
    minutes: tuple[int, ...] = ()
    zone: str | None = None
    always_class: bool = False

    @property
    def is_list(self) -> bool:
        """Whether there are several."""
        return len(self.capacities) > 1

    @property
    def has_classes(self) -> bool:
        """Whether pods choose their nodes by a `ComputeClass`, and not by labels."""
        return self.is_list or self.always_class

    @property
    def queued(self) -> bool:
        """Whether the machines of a job start all together."""
        return any(capacity.queued for capacity in self.capacities)

    def pod_annotations(self) -> Mapping[str, str]:
        """Annotations that stop the autoscaler from evicting the pod. See `Capacity.pod_annotations`.

        Autopilot refuses them for pods of a class of one's own. The class keeps a pod on its node by its
        threshold: components/manifests/compute-class.yaml.
        """
        return {} if self.has_classes else self.capacities[0].pod_annotations()

    def deadline_hours(self, run_hours: int | None) -> int | None:
        """Hours after which Kubernetes ends the job, None for never. See `Capacity.deadline_hours`."""
        # A job that goes from one capacity to the next waits for as long as it has to.
        return None if self.is_list else self.capacities[0].deadline_hours(run_hours)

    def minutes_by_class(self) -> dict[str, int]:
        """Minutes for which each capacity is tried, by the name of its class."""
        return dict(zip(map(class_name, self.capacities), self.minutes, strict=True))

    def one_class(self, machine: Machine) -> NodeClass:
        """A class with a rule for each capacity. GKE chooses one pod by pod, so this is for single nodes."""
        return NodeClass(name=_CLASS, rules=[*self._rules(machine).values()])

    def classes(self, machine: Machine) -> list[NodeClass]:
        """A class for each capacity, so that all nodes of a job come from the same capacity."""
        rules = self._rules(machine)
        return [NodeClass(name=name, rules=[rule]) for name, rule in rules.items()]

    def _rules(self, machine: Machine) -> dict[str, dict[str, Any]]:
        """The rule of each capacity, by the name of its class."""
        minutes = self.minutes or map(default_minutes, (capacity.type for capacity in self.capacities))
        return {
            class_name(capacity): capacity.class_rule(machine, minutes=longest, zone=self.zone)
            for capacity, longest in zip(self.capacities, minutes, strict=True)
        }


def class_name(capacity: Capacity) -> str:
    """Name of the class of one capacity: `flex-start`. Names of Kubernetes have no capital letters."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in capacity.type)
