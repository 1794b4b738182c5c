"""The tables of docs/machines.md: the machines with accelerators, and the models of these."""

from cloud.accelerators import Zones
from cloud.machines import MACHINES, Machine
from cloud.prices import hourly_price, parts_of_machine
from components.cluster.capacity import CapacityType
from docs_generator.parts import table


def machines() -> str:
    """The machines: what is in them, how Google sells them, and what an hour costs on demand."""
    rows = [
        [
            f"`{machine.name}`",
            f"{machine.count} x {machine.model.name} ({machine.model.memory_gb} GB)",
            str(machine.cpus),
            str(machine.memory_gib),
            str(machine.local_ssd_gib or "none"),
            f"`{machine.disk_type}`",
            "yes" if machine.on_demand else "no",
            "yes" if machine.by_calendar else "no",
            _dollars(machine),
        ]
        for machine in MACHINES.values()
        if machine.model
    ]
    columns = (
        "machine",
        "accelerators",
        "CPUs",
        "GiB",
        "local SSD, GiB",
        "boot disk",
        "on demand",
        "calendar",
    )
    return table(*columns, "dollars an hour", rows=rows)


def models() -> str:
    """The models of accelerators: their quotas and the regions of their zones."""
    models = {machine.model.name: machine.model for machine in MACHINES.values() if machine.model}
    rows = [
        [
            f"`{model.name}`",
            f"`{model.quota}`" + (f" with `{model.quota_family[1]}`" if model.quota_family else ""),
            f"`{model.preemptible_quota}`",
            f"`{model.cpu_quota}`" if model.cpu_quota else "none",
            _zones(model.zones),
        ]
        for model in models.values()
    ]
    return table(
        "accelerator", "quota on demand", "quota of spot and flex-start", "of CPUs", "zones", rows=rows
    )


def _zones(zones: Zones) -> str:
    """Zones in the short form of the catalogue: `us-central1-abc` is three zones."""
    letters = {region: "".join(zone.rpartition("-")[2] for zone in of) for region, of in zones.items()}
    words = " ".join(f"{region}-{ends}" for region, ends in sorted(letters.items()))
    return f"`{words}`" if words else "ask `capacity`"


def _dollars(machine: Machine) -> str:
    """The list price of an hour of everything in a machine, without its boot disk."""
    price = hourly_price(parts_of_machine(machine, CapacityType.ON_DEMAND))
    assert price and price.is_whole, machine.name
    return f"{price.dollars:,.2f}"
