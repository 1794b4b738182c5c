"""What belongs to a stack: by its labels, by the names in its states, by what its program would name."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cloud.artifactregistry import REPOSITORY, REPOSITORY_MEMBER
from cloud.compute import NETWORK, SUBNETWORK
from cloud.container import CLUSTER, NODE_POOL
from cloud.run import JOB, SERVICE
from cloud.serviceaccount import ACCOUNT
from operations.clients import last
from operations.plan import StackPlan
from operations.state import State, names

# What Pulumi puts behind a logical name.
_SUFFIX: Final = "-[0-9a-f]{7}"
# Behind it is a hash, which no state knows.
_OF_CARDS: Final = "gke-anp-"
_CLUSTER_LABEL: Final = "goog-k8s-cluster-name"

# Type and name of each.
Names = frozenset[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Thing:
    """Something that exists.

    Args:
        type: Type token of the resource that a program declares it by, empty for what others make.
        location: Zone, region, or empty where it has none.
        parent: What it is a part of: the cluster of a node pool, the resource of a role binding.
        network: Name of the VPC that it is in, empty for none, as of the subnet.
        owner: Address of the service account, or name of the service, that it is about.
        detail: What else a person wants to know before it is deleted.
        given_back: Who gives it back by itself, and when; empty when somebody must delete it.
    """

    type: str
    name: str
    location: str = ""
    parent: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str = ""
    subnet: str = ""
    owner: str = ""
    detail: str = ""
    given_back: str = ""


class Belonging(NamedTuple):
    """Why something belongs to the stack; not sure when only its name looks like it."""

    why: str
    sure: bool = True


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """What to look for.

    Args:
        regions: Regions that it is or was in.
        labels: Labels that its program gives.
        logical: Logical names: what its program would make now.
        present: Names in its state now: those are no leftovers.
        past: Names in its states before.
        claimed: Names in the states of other stacks.
        repositories: Repositories of others that it may have written bindings to.
    """

    stack: str
    project: str
    regions: tuple[str, ...]
    labels: Mapping[str, str]
    logical: Names
    present: Names
    past: Names
    claimed: Names = frozenset()
    repositories: tuple[str, ...] = ()

    def belongs(self, thing: Thing) -> Belonging | None:
        """Why a thing was left behind by the stack; None when it was not."""
        if (thing.type, thing.name) in self.present | self.claimed:
            return None
        if (thing.type, thing.name) in self.past:
            return Belonging("in an earlier state of the stack")
        # A revision that has its service's labels lives as long as the service.
        if not thing.owner and self.labels and self.labels.items() <= thing.labels.items():
            # As are those of a stack of this name in another backend.
            labels = ", ".join("=".join(label) for label in self.labels.items())
            return Belonging(f"labelled {labels}, and in no state", sure=False)
        alike = self._looks_alike(thing.type, thing.name)
        if thing.type == NODE_POOL.type:
            # Of a cluster that lives, made by the program and missing in the state.
            ours = alike and (CLUSTER.type, thing.parent) in self.present
            return Belonging(f"in cluster {thing.parent}, missing in the state") if ours else None
        # What exists in a cluster that lives, lives with it, whatever its network is.
        cluster = self._cluster(thing)
        if cluster:
            return self._part(CLUSTER.type, cluster, "made by GKE for cluster")
        # No label says whose it is, and no state has seen it.
        by_name = Belonging("has a name that the stack would give", sure=False) if alike else None
        return self._of_owner(thing.owner) or self._in_network(thing) or by_name or self._of_cards(thing)

    def _cluster(self, thing: Thing) -> str:
        """The cluster that GKE made a thing for, as far as its label or its name says so."""
        if _CLUSTER_LABEL in thing.labels:
            return thing.labels[_CLUSTER_LABEL]
        known = sorted(self.present | self.past | self.claimed)
        clusters = (name for type_, name in known if type_ == CLUSTER.type)
        return next((name for name in clusters if thing.name.startswith(f"gke-{name}-")), "")

    def _of_owner(self, owner: str) -> Belonging | None:
        """A role binding or a revision."""
        if "@" in owner:
            return self._part(ACCOUNT.type, owner, "of service account")
        return self._part(SERVICE.type, owner, "of service")

    def _in_network(self, thing: Thing) -> Belonging | None:
        what, type_, name = "in network", NETWORK.type, thing.network
        if not name:
            what, type_, name = "in subnet", SUBNETWORK.type, thing.subnet
        # While something in it lives, so does what was made for that.
        in_use = {CLUSTER.type, JOB.type, SERVICE.type} & {type_ for type_, _ in self.present}
        if (type_, name) in self.present and not in_use:
            return Belonging(f"{what} {name}")
        return self._part(type_, name, what)

    def _of_cards(self, thing: Thing) -> Belonging | None:
        """What GKE made for the many network cards of A4 nodes, when no cluster of the stack is there."""
        clusters = [type_ for type_, _ in self.past if type_ == CLUSTER.type]
        lives = CLUSTER.type in {type_ for type_, _ in self.present}
        if lives or not clusters or not f"{thing.network or thing.name}".startswith(_OF_CARDS):
            return None
        return Belonging("made by GKE for some cluster's network cards", sure=False)

    def _part(self, type_: str, name: str, what: str) -> Belonging | None:
        """A thing that goes where another one goes."""
        if (type_, name) in self.present | self.claimed:
            return None
        if (type_, name) in self.past:
            return Belonging(f"{what} {name}")
        if self._looks_alike(type_, name):
            return Belonging(f"{what} {name}, which has a name that the stack would give", sure=False)
        return None

    def _looks_alike(self, type_: str, name: str) -> bool:
        bare = name.partition("@")[0]
        ours = (name for kind, name in self.logical if kind == type_)
        return any(re.fullmatch(re.escape(name) + _SUFFIX, bare) for name in ours)


def footprint(plan: StackPlan, now: State, earlier: Sequence[State], others: Iterable[State]) -> Footprint:
    """What to look for, by what the program would make and what the engine knows of this stack and others."""
    every = (now, *earlier)
    return Footprint(
        stack=plan.stack,
        project=plan.project,
        regions=tuple(sorted({plan.region, *_regions(every)} - {""})),
        labels=_labels(plan),
        logical=frozenset((each.type, each.name) for each in plan.resources),
        present=names([now]),
        past=names(earlier),
        claimed=names(others),
        repositories=tuple(sorted(_foreign_repositories(every))),
    )


def _labels(plan: StackPlan) -> Mapping[str, str]:
    """The labels that everything with labels has in common."""
    given = [each.inputs.get(key) for each in plan.resources for key in ("labels", "resourceLabels")]
    every = [set(each.items()) for each in given if isinstance(each, Mapping) and "stack" in each]
    return dict(sorted(set.intersection(*every))) if every else {}


def _regions(states: Iterable[State]) -> set[str]:
    """Where Cloud Run and Artifact Registry are asked."""
    types = (each.type for each in (CLUSTER, JOB, SERVICE, REPOSITORY))
    return {str(each.outputs.get("location", "")) for state in states for each in state.of_type(*types)}


def _foreign_repositories(states: Sequence[State]) -> set[str]:
    own = names(states)
    members = (member.outputs for state in states for member in state.of_type(REPOSITORY_MEMBER.type))
    return {
        f"projects/{each['project']}/locations/{each['location']}/repositories/{last(each['repository'])}"
        for each in members
        if (REPOSITORY.type, last(each["repository"])) not in own
    }
