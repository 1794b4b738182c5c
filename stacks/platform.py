"""The base of a scenario, whether or not it trains: APIs, network, cluster, namespace and identity."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import pulumi
from pydantic import Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from components.bucket import Bucket, BucketArgs, ExistingBucket, ExistingBucketArgs, Storage
from components.capacity import FLEX_START_MAX_HOURS, Capacity, CapacityType, Reservation
from components.cluster import AutopilotCluster, Cluster, ClusterArgs
from components.component import Component
from components.control_plane import ControlPlane, ControlPlaneType
from components.identity import Identity, ServiceAccount, ServiceAccountArgs
from components.image import Image
from components.namespace import EGRESS_TO_HTTPS, INGRESS_FROM_INSIDE, Namespace, NamespaceArgs
from components.network import ClusterSubnet
from components.project_services import ProjectServices, ProjectServicesArgs
from components.ray import INGRESS_FROM_PLATFORM
from components.standard_cluster import NodePool, StandardCluster
from stacks.accounts import AccountSettings
from stacks.keys import KeySettings
from stacks.network import ClusterNetworkSettings, cluster_subnet
from stacks.reader import Hint, parsed_by
from stacks.registry import RegistrySettings

WORKLOADS: Final = Path(__file__).parent.parent / "workloads"
# Google accepts lower-case letters, digits and hyphens in most names.
Name = Annotated[
    str | None,
    Field(pattern=r"^[a-z][a-z0-9-]{1,61}[a-z0-9]$", examples=["NAME"]),
    Hint(values="3 to 63 lower-case letters, digits and hyphens that start with a letter"),
]
_ClusterName = Annotated[
    str | None,
    Field(pattern=r"^[a-z][a-z0-9-]{1,30}[a-z0-9]$"),
    Hint(values="3 to 32 lower-case letters, digits and hyphens that start with a letter"),
]
ImageByDigest = Annotated[
    Image | None,
    parsed_by(Image.parse),
    Hint(values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST"),
]
CapacityKind = Annotated[
    CapacityType, Field(alias="capacity.type", description="Where the accelerator nodes come from.")
]


class StackSettings(AccountSettings, KeySettings, RegistrySettings):
    """Settings of every scenario."""

    scenario: Annotated[str, Hint(values="the name of a scenario")] = Field(
        description="Which system the stack runs."
    )


class BucketSettings(StackSettings):
    """Settings of every scenario with a bucket."""

    force_destroy: bool = Field(
        False,
        description="Whether `pulumi destroy`, or an `up` that replaces the bucket, may delete the bucket "
        "with everything that runs have written. If false, both fail before anything is deleted, and the "
        "outputs `destroyAll` and `destroyAllButBucket` are the two commands that succeed.",
    )
    bucket_name: Name = Field(
        None,
        description="Name of the bucket. By default Pulumi generates a unique name. Another name on a stack "
        "that is up replaces the bucket: the old bucket is deleted first, with everything that runs have "
        "written. With `forceDestroy` false that fails.",
    )

    @field_validator("bucket_name")
    @classmethod
    def _is_not_googles(cls, name: str | None) -> str | None:
        """Rejects names that Cloud Storage refuses. https://docs.cloud.google.com/storage/docs/buckets#naming"""
        if name and (name.startswith("goog") or "google" in name):
            raise ValueError(f"{name!r} begins with goog or contains google, which Cloud Storage refuses")
        return name

    bucket: Annotated[str | None, Hint(values="gs://NAME, without a folder")] = Field(
        None,
        pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$",
        examples=["gs://MY_BUCKET"],
        description="A bucket that exists, in place of one of the stack's own. The runs are in its folder "
        "with the stack's name. `pulumi destroy` deletes neither the bucket nor a run.",
    )

    @field_validator("bucket")
    @classmethod
    def _excludes_one_of_its_own(cls, bucket: str | None, info: ValidationInfo) -> str | None:
        own = [key for key in ("bucket_name", "force_destroy") if info.data.get(key)]
        if bucket and own:
            keys = " and ".join(map(to_camel, own))
            raise ValueError(f"the stack then has no bucket of its own; remove {keys}, or bucket")
        return bucket


class RunSettings(StackSettings):
    """Settings of every scenario whose runs end."""

    run: Annotated[str | None, Hint(values="at most 63 letters, digits, '.', '_' or '-'")] = Field(
        None,
        # As `RUN_NAME` of the trainers has it.
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Name of the run. A run with this name in the bucket goes on, also with other code, "
        "other libraries or another image. By default the name is the recipe's, with a digest of everything "
        "that the run depends on.",
    )
    max_run_hours: int | None = Field(
        None,
        ge=1,
        # The limit of flex-start. Somebody should look at a longer run before it goes on.
        le=FLEX_START_MAX_HOURS,
        description="Hours that a run may train, in all its tries together. Then the run is saved and ends. "
        "The wait for machines does not count. By default there is no limit.",
    )


class GkeSettings(ClusterNetworkSettings, StackSettings):
    """Settings of every scenario on GKE."""

    runs_as: ClassVar = ("nodes",)

    capacity_type: CapacityKind = CapacityType.ON_DEMAND
    reservation: Annotated[
        Reservation | None,
        parsed_by(lambda text: None if text is None else Reservation.parse(text)),
        Hint(values="the name or the path of a reservation", fake="rehearsal-reservation"),
    ] = Field(
        None,
        alias="capacity.reservation",
        validate_default=True,
        description="Name of the reservation, or its path if another project shares it. Required with "
        "`capacity.type` `reservation`, and refused with every other type.",
    )
    cluster_name: _ClusterName = Field(
        None,
        description="Start of the GKE cluster's name, to which Pulumi appends seven hexadecimal digits. By "
        "default `SCENARIO-cluster`. Another start is another cluster: Pulumi creates it before it deletes "
        "the old one.",
    )
    hold_upgrades: bool = Field(
        True,
        description="Whether to keep GKE from upgrading nodes and the minor version by itself, so that no "
        "upgrade interrupts a run. This works until GKE's support of the version ends. GKE always patches "
        "the control plane.",
    )

    egress: Literal["https", "open"] = Field(
        "https",
        description="Where the pods may connect to. With `https` to each other, to name servers, to the "
        "metadata server, and on port 443 to public addresses, such as those of Google's APIs and the Hub. "
        "With `open` everywhere, for example to a tracker in a private network or on another port.",
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
        tuple[str, ...], Hint(values="a network in CIDR notation such as 203.0.113.0/24, or a list")
    ] = Field(
        (),
        validate_default=True,
        description="Networks that may connect to the API server. Include the network of the machine that "
        "runs `pulumi up`. Required with `controlPlane` `public` and `private`, and refused with `dns`.",
    )

    @property
    def control_plane(self) -> ControlPlane:
        """How the cluster's API server is reached."""
        return ControlPlane(type=self.control_plane_type, authorized_networks=self.authorized_networks)

    @field_validator("authorized_networks")
    @classmethod
    def _belong_to_address(cls, networks: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "control_plane_type" in info.data:
            ControlPlane(type=info.data["control_plane_type"], authorized_networks=networks)
        return networks

    @property
    def capacity(self) -> Capacity:
        """The capacity of the accelerator nodes."""
        return Capacity(type=self.capacity_type, reservation=self.reservation)

    @field_validator("reservation")
    @classmethod
    def _belongs_to_type(cls, reservation: Reservation | None, info: ValidationInfo) -> Reservation | None:
        if "capacity_type" in info.data:
            Capacity(type=info.data["capacity_type"], reservation=reservation)
        return reservation


class Site:
    """The project of a stack, and the names and labels of its resources.

    Attributes:
        name: Name of the scenario, with which all logical names start.
        stack: The stack's name, in characters that are valid in Google's labels and in secret ids.
        labels: Labels of all resources that Google bills.
        manifests: Folder of the scenario's own manifests.

    Args:
        settings: The stack's settings.
        depends_on: Resources without which the stack creates nothing else.
    """

    def __init__(self, settings: StackSettings, depends_on: Sequence[pulumi.Resource] = ()) -> None:
        self.name = settings.scenario
        self.stack = re.sub(r"[^a-z0-9_-]", "-", pulumi.get_stack().lower())[:63]
        self.labels = {"stack": self.stack, "scenario": self.name}
        self.manifests = WORKLOADS / self.name
        self.services = ProjectServices(
            self.name,
            ProjectServicesArgs(project=settings.project),
            # All resources of Google's wait for the APIs.
            pulumi.ResourceOptions(depends_on=depends_on) if depends_on else None,
        )

    def project_for(self, *components: type[Component]) -> pulumi.Output[str]:
        """The project id, as an output that is known once the APIs of these components are enabled."""
        return self.services.project_with(*(api for component in components for api in component.apis))

    def bucket(
        self,
        writers: Mapping[str, Identity],
        readers: Mapping[str, Identity] | None = None,
        *,
        settings: BucketSettings,
        hierarchical: bool = False,
        soft_delete_days: int = 7,
    ) -> Storage:
        """The bucket for the runs, by the settings: the stack's own, or one that exists. See `BucketArgs`."""
        if settings.bucket:
            return ExistingBucket(
                self.name,
                ExistingBucketArgs(
                    project=self.project_for(ExistingBucket),
                    bucket_name=settings.bucket.removeprefix("gs://"),
                    # Another stack's runs are in another folder.
                    folder=pulumi.get_stack(),
                    writers=writers,
                    readers=readers or {},
                ),
            )
        return Bucket(
            self.name,
            BucketArgs(
                project=self.project_for(Bucket),
                location=settings.region,
                labels=self.labels,
                writers=writers,
                readers=readers or {},
                force_destroy=settings.force_destroy,
                soft_delete_days=soft_delete_days,
                hierarchical=hierarchical,
                bucket_name=settings.bucket_name,
                kms_key=settings.kms_key,
            ),
        )


@dataclass(frozen=True, kw_only=True)
class StandardNodes:
    """The place of a Standard cluster and its nodes.

    Args:
        location: Region of the cluster, or its zone if everything is in one zone.
        zones: Zones of the nodes, all in the location.
        tpu_slice: Whether some of the nodes are a TPU slice.
    """

    location: str
    zones: Sequence[str]
    tpu_slice: bool = False

    @classmethod
    def with_tpu_slice(cls, zone: str) -> "StandardNodes":
        """Nodes with a TPU slice. A slice is in one zone, so the whole cluster is in that zone."""
        return cls(location=zone, zones=[zone], tpu_slice=True)


@dataclass(frozen=True, kw_only=True)
class GkePlatform:
    """A cluster, with the namespace and the service account of a scenario's pods.

    Args:
        subnet: Subnet of the cluster.
        account: Service account of the pods.
        depends_on: Resources that must exist before a pod starts.
    """

    subnet: ClusterSubnet
    cluster: Cluster
    namespace: Namespace
    account: ServiceAccount
    depends_on: list[pulumi.Resource]


def _network_policies(settings: GkeSettings, ingress: Sequence[Path], ray_operator: bool) -> list[Path]:
    """Manifests of the policies of a namespace. By default its pods reach each other."""
    policies = [*ingress] or [INGRESS_FROM_INSIDE]
    if ray_operator:
        policies.append(INGRESS_FROM_PLATFORM)
    if settings.egress == "https":
        policies.append(EGRESS_TO_HTTPS)
    return policies


def gke_platform(
    site: Site,
    settings: GkeSettings,
    *,
    namespace: str,
    account: str,
    images: Sequence[Image],
    network_policies: Sequence[Path] = (),
    ray_operator: bool = False,
    scales_by_metrics_of_pods: bool = False,
    nodes: StandardNodes | None = None,
) -> GkePlatform:
    """Declares network, cluster, namespace and identity.

    Args:
        account: Name of the pods' Kubernetes service account.
        images: Images of the pods. The cluster's nodes get access to their repositories.
        network_policies: Manifests of policies for ingress. By default pods of the namespace reach each
            other, and the platform reaches Ray's pods. The settings decide about egress.
        scales_by_metrics_of_pods: See `ClusterArgs`.
        nodes: Place of a Standard cluster's nodes. None makes the cluster an Autopilot cluster.
    """
    site.services.enable(*Cluster.reporting_apis)
    kind = StandardCluster if nodes else AutopilotCluster
    tpu_apis = NodePool.tpu_apis if nodes and nodes.tpu_slice else ()
    subnet = cluster_subnet(site.name, settings, site.project_for)
    cluster = kind(
        site.name,
        ClusterArgs(
            project=site.services.project_with(*kind.apis, *tpu_apis),
            location=nodes.location if nodes else settings.region,
            zones=nodes.zones if nodes else (),
            subnet=subnet,
            labels=site.labels,
            images=images,
            ray_operator=ray_operator,
            scales_by_metrics_of_pods=scales_by_metrics_of_pods,
            hold_upgrades=settings.hold_upgrades,
            control_plane=settings.control_plane,
            kms_key=settings.kms_key,
            node_account=settings.accounts.get("nodes"),
            cluster_name=settings.cluster_name,
        ),
    )
    policies = _network_policies(settings, network_policies, ray_operator)
    inside = Namespace(
        site.name, NamespaceArgs(cluster=cluster, namespace=namespace, network_policies=policies)
    )
    pods = ServiceAccount(site.name, ServiceAccountArgs(namespace=inside, account_name=account))
    return GkePlatform(
        subnet=subnet,
        cluster=cluster,
        namespace=inside,
        account=pods,
        depends_on=[pods.access, *subnet.egress, *cluster.pulls],
    )
