"""The picture of a scenario, from its plan: its components, and which of them wait for which."""

import importlib
import pkgutil
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import networkx

import components
from components.base.component import Component
from components.base.project_services import ProjectServices
from docs_generator.parts import DocumentationError
from engine.plan import Plan, Planned

# Every resource at Google waits for its API. Arrows from here would hide all others.
_SERVICES: Final = ProjectServices.__name__
_COMPONENT: Final = ":components:"
# The folders of components/ whose components are parts of a system, in the order in which its picture shows
# them.
_GROUPS: Final = (
    "network",
    "image",
    "cluster",
    "queue",
    "capacity",
    "identity",
    "storage",
    "workload",
    "monitoring",
)

# Kinds of resources that a role is granted to: accounts, and clusters with their workload identity pool.
_IDENTITIES: Final = ("Account", "Cluster")

# The names of two components. The second waits for the first.
Edge = tuple[str, str]
# The resources of every top-level component by the component's URN. The component itself comes first.
Parts = Mapping[str, list[Planned]]
# The name of the top-level component of every resource, by the resource's URN.
Home = Mapping[str, str]


def section(scenario: str, plan: Plan) -> str:
    """The picture in Mermaid, after a paragraph on how to read it.

    Raises:
        DocumentationError: If a component is in a folder that the picture does not know.
    """
    parts = _parts(plan)
    services = sum(len(parts.pop(urn)) - 1 for urn in list(parts) if _kind(parts[urn][0]) == _SERVICES)
    home = {resource.urn: _name(scenario, part[0]) for part in parts.values() for resource in part}
    contents = {urn: Counter(map(_shown, filter(_is_no_component, part))) for urn, part in parts.items()}
    resources = sum(counter.total() for counter in contents.values())
    waits = networkx.transitive_reduction(networkx.DiGraph(_waits(parts, home)))
    legend = (
        f"{resources} resources in {len(parts)} components, and {services} Google APIs that the stack "
        "enables first. A solid arrow points to a component that waits for the other one. Arrows that follow "
        "from others are left out. A dotted arrow points from an identity to a component on which it has a "
        "role."
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
    return {
        urn: sorted(resources, key=lambda resource: resource.urn != urn) for urn, resources in parts.items()
    }


@cache
def _groups() -> dict[str, str]:
    """The folder of every component in components/, by the name of its class."""
    groups: dict[str, str] = {}
    for module in pkgutil.walk_packages(components.__path__, "components."):
        for kind in vars(importlib.import_module(module.name)).values():
            if isinstance(kind, type) and issubclass(kind, Component):
                groups[kind.__name__] = kind.__module__.split(".")[1]
    return groups


def _kind(resource: Planned) -> str:
    return resource.type.rpartition(":")[2]


def _name(scenario: str, component: Planned) -> str:
    """The component's class and, if its name has one, the part that distinguishes it within the class."""
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
    by_group: dict[str, list[str]] = {group: [] for group in _GROUPS}
    for urn, part in parts.items():
        group = _groups()[_kind(part[0])]
        if group not in by_group:
            raise DocumentationError(f"{_kind(part[0])} is in components/{group}: add the folder to _GROUPS")
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
    """Pairs of components of which the second has a resource that waits for a resource of the first.

    Role bindings do not count: a binding belongs to two components, and they would wait for each other.
    """
    return {
        (home[needed], home[resource.urn])
        for part in parts.values()
        for resource in part
        for needed in resource.dependencies
        if not _is_binding(resource) and home.get(needed, home[resource.urn]) != home[resource.urn]
    }


def _grants(parts: Parts, home: Home) -> set[Edge]:
    """Pairs of components of which the first has an identity with a role on a resource of the second."""
    kinds = {resource.urn: _kind(resource) for part in parts.values() for resource in part}
    grants = set()
    for part in parts.values():
        for binding in filter(_is_binding, part):
            ends = [urn for urn in binding.dependencies if urn in home]
            members = {home[urn] for urn in ends if kinds[urn] in _IDENTITIES}
            targets = {home[urn] for urn in ends if kinds[urn] not in _IDENTITIES}
            grants |= {(member, target) for member in members for target in targets if member != target}
    return grants
