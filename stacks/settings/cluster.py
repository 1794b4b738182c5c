"""The topic of a cluster: its network, who reaches it, and whom its pods reach."""

from ipaddress import IPv4Network
from typing import Annotated, Final, Literal

from pydantic import Field

from components.cluster.control_plane import ControlPlane, ControlPlaneType
from components.network.ranges import PRIVATE, SPECIAL, is_within
from stacks.settings.model import ConfigModel, Hint, rule
from stacks.settings.project import AccountAddress, Project
from stacks.settings.subnet import NETWORK_NAME, InternalRanges, SubnetName, require_https, require_region

_RESOURCE_NAME: Final = Hint(values="1 to 63 lower-case letters, digits and hyphens that start with a letter")
_WITHOUT_SUBNET: Final = "Refused with `subnet`."
_OTHER_RANGES: Final = "A change on a stack that is up makes another network and another cluster."
# Ranges of machines, pods and services in the stack's own network.
_OWN_RANGES: Final = ("10.0.0.0/20", "10.4.0.0/16", "10.8.0.0/20")
# The nodes with accelerators that a stack may have.
MOST_NODES: Final = 100
# Prefixes of the smallest ranges of a network of the stack's own. A Standard node takes 256 addresses for its
# pods. A /17 is enough for MOST_NODES, and for those that an upgrade adds.
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips
_LARGEST_PREFIXES: Final = (25, 17, 27)
_CIDR: Final = Hint(values="a private range in CIDR notation such as 10.0.0.0/20")
_CIDR_IN: Final = "take a range in 10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16 or 100.64.0.0/10"
_ClusterName = Annotated[
    str | None,
    Field(pattern=r"^[a-z][a-z0-9-]{1,30}[a-z0-9]$"),
    Hint(values="3 to 32 lower-case letters, digits and hyphens that start with a letter"),
]
_NameInSubnet = Annotated[str | None, Field(pattern=f"^{NETWORK_NAME}$"), _RESOURCE_NAME]
Egress = Literal["https", "googleAndHub", "open"]


class Cluster(ConfigModel):
    """Cluster and network."""

    egress: Egress = Field(
        "https",
        description="Where the pods may connect to. With `https` to each other, to name servers, to the "
        "metadata server, and on port 443 to public addresses, such as those of Google's APIs and the Hub. "
        "With `googleAndHub` on port 443 to Google's APIs and the Hugging Face Hub alone, by their names. "
        "With `open` everywhere, for example to a tracker in a private network or on another port.",
    )
    internal_ranges: InternalRanges = ()
    hold_upgrades: bool = Field(
        True,
        description="Whether to keep GKE from upgrading nodes and the minor version by itself, so that no "
        "upgrade interrupts a run. This works until GKE's support of the version ends. GKE always patches "
        "the control plane.",
    )
    control_plane_type: Annotated[
        ControlPlaneType,
        Field(
            alias="controlPlane",
            description="Address of the cluster's API server. With `dns` it has a name and no IP address. It "
            "answers callers in every network who have the permission `container.clusters.connect`. With "
            "`public` or `private` it has an IP address of that kind, and answers only the "
            "`authorizedNetworks`. A change keeps the cluster.",
        ),
    ] = ControlPlaneType.DNS
    authorized_networks: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Hint(values="a network in CIDR notation such as 203.0.113.0/24, or a list"),
    ] = Field(
        (),
        description="Networks that may connect to the API server. Include the network of the machine that "
        "runs `pulumi up`. Required with `controlPlane` `public` and `private`, and refused with `dns`.",
    )
    subnet: SubnetName = None
    network: _NameInSubnet = Field(
        None,
        examples=["MY_NETWORK"],
        description="Name of the VPC with `subnet`, in the subnet's project. Required with `subnet`, and "
        "refused without it.",
    )
    pods_range: _NameInSubnet = Field(
        None,
        examples=["MY_PODS"],
        description="Name of the secondary range of `subnet` for pods. A Standard node takes 256 of its "
        "addresses. Required with `subnet`, and refused without it.",
    )
    services_range: _NameInSubnet = Field(
        None,
        examples=["MY_SERVICES"],
        description="Name of the secondary range of `subnet` for services. Required with `subnet`, and "
        "refused without it.",
    )
    machine_addresses: Annotated[str, _CIDR] = Field(
        _OWN_RANGES[0],
        alias="ownNetwork.machines",
        description="Addresses of the machines in the stack's own network. If you will connect it "
        f"to another network, choose ranges that the other one does not use. {_OTHER_RANGES} "
        f"{_WITHOUT_SUBNET}",
    )
    pod_addresses: Annotated[str, _CIDR] = Field(
        _OWN_RANGES[1],
        alias="ownNetwork.pods",
        description="Addresses of the pods in the stack's own network, a /17 or larger. "
        f"{_OTHER_RANGES} {_WITHOUT_SUBNET}",
    )
    service_addresses: Annotated[str, _CIDR] = Field(
        _OWN_RANGES[2],
        alias="ownNetwork.services",
        description="Addresses of the services in the stack's own network. "
        f"{_OTHER_RANGES} {_WITHOUT_SUBNET}",
    )
    cluster_name: _ClusterName = Field(
        None,
        description="Start of the GKE cluster's name, to which Pulumi appends seven hexadecimal digits. By "
        "default `SCENARIO-cluster`. Another start is another cluster: Pulumi creates it before it deletes "
        "the old one.",
    )
    node_account: AccountAddress = Field(
        None,
        alias="accounts.nodes",
        description="Service account of the nodes that exists before the stack. The bootstrap makes it, so "
        "that a pipeline acts as no other account. By default the stack creates its own.",
    )

    rbac_group: Annotated[str | None, Hint(values="gke-security-groups@DOMAIN")] = Field(
        None,
        pattern=r"^gke-security-groups@[a-z0-9-]+(\.[a-z0-9-]+)+$",
        examples=["gke-security-groups@example.com"],
        description="Group of your organisation whose member groups roles in the cluster can name. GKE takes "
        "only this name. Without the setting on a later `up` the cluster keeps the group.",
    )
    security_bulletins: Annotated[
        str | None, Hint(values="the name of a topic of Pub/Sub in the stack's project, without a path")
    ] = Field(
        None,
        pattern=r"^[A-Za-z][A-Za-z0-9._~%+-]{2,254}$",
        examples=["MY_TOPIC"],
        description="Topic of Pub/Sub in the stack's project to which GKE writes the security bulletins that "
        "concern the cluster. It exists before the stack. Without the setting on a later `up` the cluster "
        "keeps the topic.",
    )

    @property
    def control_plane(self) -> ControlPlane:
        """How the cluster's API server is reached."""
        return ControlPlane(type=self.control_plane_type, authorized_networks=self.authorized_networks)

    @rule("internalRanges")
    def _ranges_belong_to_https(self) -> None:
        require_https(self.internal_ranges, self.egress)

    @rule("authorizedNetworks")
    def _networks_belong_to_the_address(self) -> None:
        ControlPlane(type=self.control_plane_type, authorized_networks=self.authorized_networks)

    @rule("subnet")
    def _subnet_is_in_the_region(self, project: Project) -> None:
        require_region(self.subnet, project.region)

    @rule("network")
    def _network_belongs_to_the_subnet(self) -> None:
        self._require_both("network", self.network)

    @rule("podsRange")
    def _pods_range_belongs_to_the_subnet(self) -> None:
        self._require_both("podsRange", self.pods_range)

    @rule("servicesRange")
    def _services_range_belongs_to_the_subnet(self) -> None:
        self._require_both("servicesRange", self.services_range)

    def _require_both(self, key: str, name: str | None) -> None:
        if self.subnet and name is None:
            raise ValueError(f"missing, and subnet needs it; set it with `pulumi config set {key} NAME`")
        if name and not self.subnet:
            raise ValueError("only with subnet, which the stack does not have; set subnet, or remove this")

    @rule("ownNetwork.machines", when_set=True)
    def _machines_are_in_its_own_network(self) -> None:
        self._require_own_network()

    @rule("ownNetwork.pods", when_set=True)
    def _pods_are_in_its_own_network(self) -> None:
        self._require_own_network()

    @rule("ownNetwork.services", when_set=True)
    def _services_are_in_its_own_network(self) -> None:
        self._require_own_network()

    def _require_own_network(self) -> None:
        if self.subnet:
            raise ValueError("with subnet the stack has no network of its own; remove one of the two")

    @rule("ownNetwork.machines")
    def _machine_addresses_are_free(self) -> None:
        self._require_free(self.machine_addresses, 0, {})

    @rule("ownNetwork.pods")
    def _pod_addresses_are_free(self) -> None:
        self._require_free(self.pod_addresses, 1, {"ownNetwork.machines": self.machine_addresses})

    @rule("ownNetwork.services")
    def _service_addresses_are_free(self) -> None:
        others = {"ownNetwork.machines": self.machine_addresses, "ownNetwork.pods": self.pod_addresses}
        self._require_free(self.service_addresses, 2, others)

    def _require_free(self, text: str, place: int, others: dict[str, str]) -> None:
        """Rejects what Google would refuse too late, and addresses that policies would let out.

        Args:
            place: Place of the range in `_OWN_RANGES`.
            others: Ranges before it, by their keys.
        """
        if self.subnet:
            return
        try:
            block = IPv4Network(text)
        except ValueError:
            raise ValueError(f"{text!r} is not {_CIDR.values}") from None
        if any(block.overlaps(IPv4Network(special)) for special in SPECIAL):
            raise ValueError(f"no network may have {text}; {_CIDR_IN}")
        if not is_within(block, *PRIVATE, *self.internal_ranges):
            raise ValueError(
                f"{text} has public addresses, which the policies of the pods treat as the internet; "
                f"{_CIDR_IN}, or name the range in internalRanges too"
            )
        if block.prefixlen > _LARGEST_PREFIXES[place]:
            raise ValueError(f"{text} is too small; take a /{_LARGEST_PREFIXES[place]} or larger")
        for key, other in others.items():
            if block.overlaps(IPv4Network(other)):
                raise ValueError(f"{text} overlaps with {other} of {key}; choose another range")
