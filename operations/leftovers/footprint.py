"""Decides what belongs to a stack, by labels, names in its states, and names that its program would give."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from typing import Final

from cloud import records
from cloud.services.artifactregistry import REPOSITORY, REPOSITORY_MEMBER
from cloud.services.cloudrun import JOB, SERVICE
from cloud.services.compute import NETWORK, SUBNETWORK
from cloud.services.container import CLUSTER, NODE_POOL
from cloud.services.serviceaccount import ACCOUNT
from cloud.services.storage import BUCKET
from operations.google.clients import last
from operations.leftovers.candidate import Belonging, Candidate, Identity, perhaps
from operations.plan import StackPlan
from operations.state import RANDOM_SUFFIX, Resource, State

# Names of networks for network cards, with the first digits of a cluster's id, which no state knows.
_OF_CARDS: Final = re.compile(r"gke-anp-([0-9a-f]{8})")
# Title of the only kind that GKE creates in a host project.
FIREWALL_RULE: Final = "firewall rule"
# Labels that GKE puts on what it creates for a cluster.
_CLUSTER_LABEL: Final = "goog-k8s-cluster-name"
_PLACE_LABEL: Final = "goog-k8s-cluster-location"
# Google's clock says when a resource was created, the engine's clock when the state first had it. They may
# differ.
_CLOCKS_DIFFER: Final = timedelta(minutes=1)


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """The traces of a stack by which its resources in one project are recognized.

    Args:
        regions: Regions that the stack is or was in.
        labels: Labels that its program puts on everything.
        logical: Types and logical names of what its program would create now.
        present: Resources of its present state, which are no leftovers.
        past: Resources of its earlier states. If a name was created several times, the last one.
        claimed: Resources in the states of other stacks.
        repositories: Repositories outside the stack to which it may have added role bindings.
        borrowed_bucket: Name of the bucket in the setting `bucket`, which is never a leftover, even if an
            earlier stack has made it. Empty without the setting.
        titles: Titles of the kinds that the stack may have left in the project. Empty for all kinds.
        living: The first eight digits of the ids of all clusters in the project. None if they are not known.
    """

    stack: str
    project: str
    regions: tuple[str, ...]
    labels: Mapping[str, str]
    logical: frozenset[tuple[str, str]]
    present: frozenset[Identity]
    past: Mapping[Identity, Resource]
    claimed: frozenset[Identity] = frozenset()
    repositories: tuple[str, ...] = ()
    borrowed_bucket: str = ""
    titles: tuple[str, ...] = ()
    living: frozenset[str] | None = None

    def belongs(self, candidate: Candidate) -> Belonging | None:
        """Why a resource is a leftover of the stack, None if it is not."""
        is_borrowed = candidate.type == BUCKET.type and candidate.name == self.borrowed_bucket
        if is_borrowed or candidate.identity in self._alive:
            return None
        if candidate.identity in self.past:
            return _of_state(self.past[candidate.identity], candidate)
        if candidate.owner:
            return self._of_owner(candidate)
        if candidate.type == NODE_POOL.type:
            return self._pool(candidate)
        if clusters := [*self._clusters(candidate)]:
            # What GKE created for an existing cluster stays with it. Labels and network do not matter.
            is_alive = any(cluster in self._alive for cluster in clusters)
            return None if is_alive else self._of_cluster(clusters[0], candidate)
        return self._of_marks(candidate)

    @property
    def _alive(self) -> frozenset[Identity]:
        return self.present | self.claimed

    def _of_marks(self, candidate: Candidate) -> Belonging | None:
        """Why a resource of no known cluster is a leftover: by its labels, its network or its name."""
        # A cluster that no state knows.
        stranger = candidate.labels.get(_CLUSTER_LABEL, "")
        if stranger and self._looks_alike(CLUSTER.type, stranger):
            return perhaps(f"made by GKE for cluster {stranger}, which has a name that the stack would give")
        belonging = self._in_network(candidate, stranger) or self._of_labels(candidate)
        if not belonging and self._looks_alike(candidate.type, candidate.name):
            belonging = perhaps("has a name that the stack would give, and is in no state")
        return belonging or self._of_cards(candidate)

    def _pool(self, candidate: Candidate) -> Belonging | None:
        """A node pool that the program created in an existing cluster, and that is missing in the state."""
        of_present = any(
            (CLUSTER.type, candidate.parent, candidate.location)
            == (cluster.type, cluster.name, cluster.place)
            for cluster in self.present
        )
        if of_present and self._looks_alike(candidate.type, candidate.name):
            return Belonging(
                f"has a name of the stack, in its cluster {candidate.parent}, and is in no state"
            )
        # In another cluster a node pool of this name is somebody else's. It goes with a cluster that is a
        # leftover.
        return None

    def _clusters(self, candidate: Candidate) -> Iterator[Identity]:
        """The known clusters for which GKE may have created a resource, by its label or else its name."""
        known = {identity for identity in (*self._alive, *self.past) if identity.type == CLUSTER.type}
        if _CLUSTER_LABEL in candidate.labels:
            place = candidate.labels.get(_PLACE_LABEL, "")
            for cluster in sorted(known):
                near = cluster.place == place if place else _near(cluster.place, candidate.location)
                if cluster.name == candidate.labels[_CLUSTER_LABEL] and near:
                    yield cluster
            return
        named = [identity for identity in known if candidate.name.startswith(f"gke-{identity.name}-")]
        # The name of a cluster may begin with another cluster's name.
        longest = max((len(identity.name) for identity in named), default=0)
        yield from sorted(identity for identity in named if len(identity.name) == longest)

    def _of_cluster(self, cluster: Identity, candidate: Candidate) -> Belonging:
        if not self._is_of_gke(candidate, cluster.name):
            what = f"its name begins as if GKE had made it for the stack's cluster {cluster.name}"
            return perhaps(f"{what}, and neither a label nor its network says so")
        if self.past[cluster].has_random_name:
            return Belonging(f"made by GKE for the stack's cluster {cluster.name}")
        return perhaps(
            f"made by GKE for a cluster {cluster.name}: the stack had one, and others may use that name too"
        )

    def _is_of_gke(self, candidate: Candidate, cluster: str) -> bool:
        """Whether more than the beginning of a name says that GKE made a resource. Anybody may give a name.

        GKE labels what has labels. The names of firewall rules, which have none, end in digits of its own.
        """
        if candidate.labels:
            return _CLUSTER_LABEL in candidate.labels
        known = {(item.type, item.name) for item in (*self.present, *self.past)}
        places = (NETWORK.type, candidate.network), (SUBNETWORK.type, candidate.subnet)
        of_gke = re.match(rf"gke-{re.escape(cluster)}-(.+-)?[0-9a-f]{{8}}(-|$)", candidate.name)
        return bool(of_gke) or any(place in known for place in places)

    def _of_owner(self, candidate: Candidate) -> Belonging | None:
        """A role binding or a revision."""
        if "@" in candidate.owner:
            return self._part(Identity(ACCOUNT.type, candidate.owner), "of service account")
        return self._part(Identity(SERVICE.type, candidate.owner, candidate.location), "of service")

    def _part(self, whole: Identity, what: str) -> Belonging | None:
        """A resource that goes with another one."""
        if whole in self._alive:
            return None
        if whole in self.past:
            if self.past[whole].has_random_name:
                return Belonging(f"{what} {whole.name}, which the stack had")
            return perhaps(f"{what} {whole.name}: the stack had one, and others may use that name too")
        if self._looks_alike(whole.type, whole.name):
            return perhaps(f"{what} {whole.name}, which has a name that the stack would give")
        return None

    def _of_labels(self, candidate: Candidate) -> Belonging | None:
        if not self._labelled(candidate):
            return None
        return perhaps(
            f"labelled {self._label_text}, and in no state: "
            "a stack of this name in another backend may own it"
        )

    def _labelled(self, candidate: Candidate) -> bool:
        return bool(self.labels) and self.labels.items() <= candidate.labels.items()

    @property
    def _label_text(self) -> str:
        return ", ".join("=".join(label) for label in self.labels.items())

    def _in_network(self, candidate: Candidate, stranger: str) -> Belonging | None:
        """Other people may put resources into the stack's network too. Those block its deletion."""
        what, type_, name = "in network", NETWORK.type, candidate.network
        if not name:
            what, type_, name = "in subnet", SUBNETWORK.type, candidate.subnet
        if not name or self._in_use(type_, name):
            return None
        known = [other for other in (*self.present, *self.past) if (other.type, other.name) == (type_, name)]
        if not known:
            alike = self._looks_alike(type_, name)
            return perhaps(f"{what} {name}, which has a name that the stack would give") if alike else None
        if candidate.given_back:
            return Belonging(f"{what} {name}")
        random = all(self.past[other].has_random_name for other in known if other in self.past)
        if self._labelled(candidate) and random:
            return Belonging(f"labelled {self._label_text}, {what} {name} of the stack")
        labels = ", ".join(f"{key}={value}" for key, value in sorted(candidate.labels.items()))
        whose = f"labelled {labels}" if labels else "and no label says whose it is"
        if stranger:
            whose = f"made by GKE for cluster {stranger}, which no state knows"
        return perhaps(f"{what} {name} of the stack, {whose}")

    def _in_use(self, type_: str, name: str) -> bool:
        """Whether another stack has the network, or the stack still runs something in it."""
        if any((other.type, other.name) == (type_, name) for other in self.claimed):
            return True
        users = {CLUSTER.type, JOB.type, SERVICE.type} & {identity.type for identity in self.present}
        return bool(users) and any((other.type, other.name) == (type_, name) for other in self.present)

    def _of_cards(self, candidate: Candidate) -> Belonging | None:
        """What GKE created for the many network cards of A4 nodes, if their cluster is gone.

        GKE puts the first digits of the cluster's id into the names
        (https://github.com/GoogleCloudPlatform/AIHypercomputerSamples, 2026-11-22).
        """
        had_cluster = any(identity.type == CLUSTER.type for identity in self.past)
        of_cards = _OF_CARDS.match(candidate.network or candidate.name)
        if not had_cluster or not of_cards:
            return None
        if self.living is not None:
            gone = of_cards[1] not in self.living
            return perhaps("made by GKE for the network cards of a cluster that is gone") if gone else None
        if any(identity.type == CLUSTER.type for identity in self.present):
            return None
        return perhaps("made by GKE for some cluster's network cards; the name does not say which")

    def _looks_alike(self, type_: str, name: str) -> bool:
        bare = name.partition("@")[0]
        ours = (name for kind, name in self.logical if kind == type_)
        return any(re.fullmatch(re.escape(name) + RANDOM_SUFFIX, bare) for name in ours)


def _of_state(resource: Resource, candidate: Candidate) -> Belonging:
    """A resource whose name an earlier state has.

    Somebody else may have created it again after its deletion.
    """
    since, created = resource.created, candidate.created
    if since and created and created > since + _CLOCKS_DIFFER:
        return perhaps(
            f"its name is in an earlier state of the stack, but this one was made later, "
            f"{created.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        )
    if resource.has_random_name:
        return Belonging("its random name is in an earlier state of the stack")
    if since and created:
        return Belonging("in an earlier state of the stack, and made in its time")
    return perhaps("its name is in an earlier state of the stack; when it was made is not known")


def _near(cluster: str, place: str) -> bool:
    """Whether a resource at a place may belong to a cluster in a zone or region.

    A global one may belong to any.
    """
    return not place or place == cluster or place.startswith(f"{cluster}-") or cluster.startswith(f"{place}-")


def footprints(
    plan: StackPlan, now: State, earlier: Sequence[State], others: Iterable[State]
) -> list[Footprint]:
    """The traces of a stack: in the plan's project, then in other projects that had its resources.

    The host project of a Shared VPC comes last. GKE creates firewall rules for a cluster there.
    """
    claimed = [*others]
    listed = {type_ for type_, record in records.every().items() if record.listing}
    used = {resource.project for state in (now, *earlier) for resource in state.of_type(*listed)}
    projects = (plan.project, *sorted(used - {plan.project, ""}))
    own = [_footprint(plan, project, now, earlier, claimed) for project in projects]
    hosts = sorted(_hosts((now, *earlier)) - {*projects})
    return [*own, *(_in_host(host, own) for host in hosts)]


def _hosts(states: Iterable[State]) -> set[str]:
    """Projects with the subnets of the stack's clusters."""
    clusters = (cluster.outputs for state in states for cluster in state.of_type(CLUSTER.type))
    places = (re.search("projects/([^/]+)/", str(cluster.get("subnetwork"))) for cluster in clusters)
    return {place[1] for place in places if place}


def _in_host(host: str, own: Sequence[Footprint]) -> Footprint:
    """The traces in a host project: what carries the name of one of the stack's clusters."""
    present = {identity for footprint in own for identity in footprint.present}
    past = {identity: item for footprint in own for identity, item in footprint.past.items()}
    return replace(
        own[0],
        project=host,
        labels={},
        logical=frozenset(),
        present=frozenset(identity for identity in present if identity.type == CLUSTER.type),
        past={identity: item for identity, item in past.items() if identity.type == CLUSTER.type},
        repositories=(),
        titles=(FIREWALL_RULE,),
    )


def _footprint(
    plan: StackPlan, project: str, now: State, earlier: Sequence[State], others: Sequence[State]
) -> Footprint:
    every = (now, *earlier)
    past: dict[Identity, Resource] = {}
    # The newest state is first, so the last creation of a name stays.
    for identity, resource in _inside(project, earlier):
        past.setdefault(identity, resource)
    return Footprint(
        stack=plan.stack,
        project=project,
        regions=tuple(sorted({plan.region, *_regions(every)} - {""})),
        labels=_labels(plan),
        logical=frozenset((resource.type, resource.name) for resource in plan.resources),
        present=frozenset(identity for identity, _ in _inside(project, [now])),
        past=past,
        claimed=frozenset(identity for identity, _ in _inside(project, others)),
        repositories=tuple(sorted(_foreign_repositories(every))),
        borrowed_bucket=str(plan.setting("bucket") or "").removeprefix("gs://"),
    )


def _inside(project: str, states: Iterable[State]) -> Iterator[tuple[Identity, Resource]]:
    """The resources of the states that are in a project, or that do not say where they are."""
    for state in states:
        for resource in state.resources:
            if resource.id and resource.project in (project, ""):
                name, place = resource.physical_name, resource.place
                yield Identity(resource.type, name, place, resource.cluster), resource


def _labels(plan: StackPlan) -> Mapping[str, str]:
    """The labels that all labelled resources have in common."""
    inputs = [resource.inputs for resource in plan.resources]
    labels = [tree.get(key) for tree in inputs for key in ("labels", "resourceLabels")]
    every = [set(tree.items()) for tree in labels if isinstance(tree, Mapping) and "stack" in tree]
    return dict(sorted(set.intersection(*every))) if every else {}


def _regions(states: Iterable[State]) -> set[str]:
    """The locations in which to ask Cloud Run and Artifact Registry."""
    types = [record.type for record in (CLUSTER, JOB, SERVICE, REPOSITORY)]
    resources = (resource for state in states for resource in state.of_type(*types))
    return {str(resource.outputs.get("location", "")) for resource in resources}


def _foreign_repositories(states: Sequence[State]) -> set[str]:
    own = {repository.physical_name for state in states for repository in state.of_type(REPOSITORY.type)}
    members = (member.outputs for state in states for member in state.of_type(REPOSITORY_MEMBER.type))
    paths = set()
    for member in members:
        name = last(member["repository"])
        if name not in own:
            paths.add(f"projects/{member['project']}/locations/{member['location']}/repositories/{name}")
    return paths
