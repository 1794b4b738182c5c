"""The slices of TPU chips: their machines, their names, and the labels by which pods select them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cloud.accelerators import TOPOLOGY_LABEL, TPU_LABEL, TPUS, Tpu
from cloud.machines import MACHINES, Machine, chips_in


@dataclass(frozen=True, kw_only=True)
class Slice:
    """TPU chips that are wired to each other. A slice exists as a whole or not at all.

    Args:
        topology: Chips in each direction, such as `4x4`.
    """

    topology: str
    machine: Machine

    @property
    def chips(self) -> int:
        """Chips of all hosts together."""
        return chips_in(self.topology)

    @property
    def model(self) -> Tpu:
        """The generation of its chips."""
        return next(model for model in TPUS.values() if model is self.machine.model)

    @property
    def accelerator_type(self) -> str:
        """Google's name of the slice, which counts the cores of its chips: `v6e-16`, `v5p-8`."""
        return f"{self.model.ray_version}-{self.chips * self.model.cores}"

    @property
    def hosts(self) -> int:
        """Machines."""
        return self.chips // self.machine.count

    @property
    def node_labels(self) -> Mapping[str, str]:
        """Labels by which a pod selects the slice."""
        return {**self.machine.node_labels, TOPOLOGY_LABEL: self.topology}


# Slices by the version of their chips and by topology. If two machines can be hosts, the larger one is. GKE
# makes a 2x4 of two machines with four chips too, but Ray takes every 2x4 for one host with eight chips.
TPU_SLICES: Final[Mapping[str, Mapping[str, Slice]]] = {
    version: {
        topology: Slice(topology=topology, machine=machine)
        for machine in MACHINES.values()
        if machine.model is model
        for topology in machine.topologies
    }
    for version, model in TPUS.items()
}


def slice_of(labels: Mapping[str, str]) -> Slice:
    """The slice that a node selector chooses. Raises KeyError for none of the catalogue."""
    (version,) = (version for version, model in TPUS.items() if model.name == labels[TPU_LABEL])
    return TPU_SLICES[version][labels[TOPOLOGY_LABEL]]
