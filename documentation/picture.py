"""The picture of a scenario, from its plan: which components it has, and which waits for which."""

import importlib
import pkgutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, get_args

import networkx

import components
from components.component import Component, Group
from components.project_services import ProjectServices
from documentation.parts import DocumentationError
from engine.plan import Plan, Planned

# Everything at Google waits for its API; arrows from here would hide the others.
_SERVICES: Final = ProjectServices.__name__
_COMPONENT: Final = ":components:"

# What a role is given to: an account, or the identity pool that comes with a cluster.
_IDENTITIES: Final = ("Account", "Cluster")

# Two components by name: the first comes before the second.
Edge = tuple[str, str]
# Every component that has no component above it, with itself and everything inside, by its URN.
Parts = Mapping[str, list[Planned]]
# The component's name of every resource, by URN.
Home = Mapping[str, str]


def section(scenario: str, plan: Plan) -> str:
    """The picture in Mermaid with a sentence on how to read it.

    Raises:
        DocumentationError: For a component that does not say its group.
    """
    parts = _parts(plan)
    services = sum(len(parts.pop(urn)) - 1 for urn in list(parts) if _kind(parts[urn][0]) == _SERVICES)
    home = {each.urn: _name(scenario, found[0]) for found in parts.values() for each in found}
    contents = {urn: Counter(map(_shown, filter(_is_no_component, found))) for urn, found in parts.items()}
    resources = sum(sum(found.values()) for found in contents.values())
    waits = networkx.transitive_reduction(networkx.DiGraph(_waits(parts, home)))
    legend = (
        f"{resources} resources in {len(parts)} components, and {services} Google APIs that are switched on, "
        "each before what needs it. An arrow leads to what waits, but for arrows that follow from others. A "
        "dotted arrow leads from an identity to what it has a role on."
    )
    lines = [
        "```mermaid",
        "flowchart LR",
        *_subgraphs(parts, home, contents),
        *(f"  {first} --> {then}" for first, then in sorted(waits.edges)),
        *(f"  {member} -.-> {target}" for member, target in sorted(_grants(parts, home))),
        "```",
    ]
    return "\n".join([*textwrap.wrap(legend, 118), "", *lines, ""])


def _parts(plan: Plan) -> dict[str, list[Planned]]:
    by_urn = {resource.urn: resource for resource in plan.resources}
    parts: dict[str, list[Planned]] = {}
    for resource in plan.resources:
        top = resource
        while (above := by_urn.get(top.parent)) and above.parent:
            top = above
        if not top.parent:
            continue  # the stack itself
        if _COMPONENT not in top.type:
            raise DocumentationError(f"{top.name} ({top.type}) is in no component")
        parts.setdefault(top.urn, []).append(resource)
    return {urn: sorted(found, key=lambda each: each.urn != urn) for urn, found in parts.items()}


@cache
def _groups() -> dict[str, Group | None]:
    """The part of a system that every component of components/ belongs to, by the name of its class."""
    found: dict[str, Group | None] = {}
    for module in pkgutil.walk_packages(components.__path__, "components."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, Component):
                found[kind.__name__] = getattr(kind, "group", None)
    return found


def _kind(resource: Planned) -> str:
    return resource.type.rpartition(":")[2]


def _name(scenario: str, component: Planned) -> str:
    """The component's class, and what tells it from others of its class."""
    own = component.name.removeprefix(scenario).strip("-").replace("-", "_")
    return f"{_kind(component)}_{own}" if own else _kind(component)


def _is_no_component(resource: Planned) -> bool:
    return _COMPONENT not in resource.type


def _shown(resource: Planned) -> str:
    if resource.type.startswith("pulumi:providers:"):
        return "provider"
    return "role binding" if _is_binding(resource) else _kind(resource)


def _is_binding(resource: Planned) -> bool:
    return _kind(resource).lower().endswith("iammember")


def _subgraphs(parts: Parts, home: Home, contents: Mapping[str, Counter[str]]) -> Iterator[str]:
    by_group: dict[str, list[str]] = {group: [] for group in get_args(Group)}
    for urn, part in parts.items():
        group = _groups().get(_kind(part[0]))
        if group is None:
            raise DocumentationError(f"{_kind(part[0])} is no component of components/ that says its group")
        by_group[group].append(urn)
    for group, urns in by_group.items():
        if urns:
            yield f"  subgraph the_{group} [{group}]"
            for urn in sorted(urns, key=home.__getitem__):
                title = home[urn].replace("_", " ")
                counted = (f"{n} x {what}" if n > 1 else what for what, n in sorted(contents[urn].items()))
                yield f'    {home[urn]}["{title}<br/>{", ".join(counted)}"]'
            yield "  end"


def _waits(parts: Parts, home: Home) -> set[Edge]:
    """Which component has something in it that waits for something of which other one.

    Role bindings aside: one of them belongs to two components, and would make circles of them.
    """
    return {
        (home[needed], home[resource.urn])
        for part in parts.values()
        for resource in part
        for needed in resource.dependencies
        if not _is_binding(resource) and home.get(needed, home[resource.urn]) != home[resource.urn]
    }


def _grants(parts: Parts, home: Home) -> set[Edge]:
    """Which component has an identity with a role on something of which other one."""
    kinds = {resource.urn: _kind(resource) for part in parts.values() for resource in part}
    found = set()
    for part in parts.values():
        for binding in filter(_is_binding, part):
            ends = [urn for urn in binding.dependencies if urn in home]
            members = {home[urn] for urn in ends if kinds[urn] in _IDENTITIES}
            targets = {home[urn] for urn in ends if kinds[urn] not in _IDENTITIES}
            found |= {(member, target) for member in members for target in targets if member != target}
    return found
