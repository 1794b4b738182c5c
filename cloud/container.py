"""Google Kubernetes Engine: clusters and node pools.

Sources of the rules: ConflictsWith of the Google provider's schema (7.45, listed in its documentation), and
the GKE API for what that provider lets through.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Final

from cloud.compute import NETWORK, SUBNETWORK
from cloud.inputs import at, given, texts
from cloud.machines import MACHINES, Machine, Slice
from cloud.record import Billed, Existing, Inputs, Listing, Made, Minutes, Name, Problem, Record, verbs
from cloud.rules import RFC1035, RFC1035_RULE, excludes, labels, one_of
from cloud.serviceaccount import ACCOUNT

API: Final = "container.googleapis.com"
ADMIN: Final = "roles/container.admin"
_NAME: Final = Name(pattern=RFC1035 % 38, rule=RFC1035_RULE % 40, longest=40)
_BILLING: Final = "CCD8-9BF1-090E"
_VERSION: Final = "1.35.1-gke.1000000"
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming
_STREAMING: Final = {"nodeConfig.gcfsConfig.enabled": "containerfilesystem.googleapis.com"}

# What an Autopilot cluster decides by itself.
_NOT_ON_AUTOPILOT: Final = (
    "addonsConfig.networkPolicyConfig",
    "addonsConfig.dnsCacheConfig",
    "addonsConfig.statefulHaConfig",
    "clusterAutoscaling.enabled",
    "clusterAutoscaling.resourceLimits",
    "binaryAuthorization.enabled",
    "enableShieldedNodes",
    "networkPolicy",
    "nodePools",
    "removeDefaultNodePool",
    "defaultMaxPodsPerNode",
    "enableIntranodeVisibility",
    # Let through by the provider; the platform rejects it or, for nodeConfig, the cluster is replaced
    # on every update (pulumi-gcp issue 2247).
    "nodeConfig",
)
_ZONE: Final = re.compile(r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+")

# Below `nodeConfig` of both.
_NODE_CONFIG: Final = (
    "advancedMachineFeatures bootDiskKmsKey confidentialNodes.confidentialInstanceType "
    "enableConfidentialStorage ephemeralStorageLocalSsdConfig flexStart guestAccelerators "
    "hostMaintenancePolicy localSsdCount localSsdEncryptionMode maxRunDuration metadata minCpuPlatform "
    "nodeGroup oauthScopes preemptible reservationAffinity sandboxConfig secondaryBootDisks serviceAccount "
    "shieldedInstanceConfig spot"
)
_NODE_CONFIG_REPLACED_BY: Final = " ".join(f"nodeConfig.{path}" for path in _NODE_CONFIG.split())


def is_zonal(inputs: Inputs) -> bool:
    """Whether a cluster's control plane is in one zone alone."""
    return any(map(_ZONE.fullmatch, texts(inputs, "location")))


def node_labels(inputs: Inputs) -> Mapping[str, str]:
    """The labels that pods select a pool of TPU chips by; none for a pool without chips."""
    for machine in _machines(inputs, "nodeConfig"):
        if machine.is_tpu:
            topology = next(texts(inputs, "placementPolicy.tpuTopology"), machine.own_topology)
            return Slice(topology=topology, machine=machine).node_labels
    return {}


def _cluster(inputs: Inputs) -> Iterator[Problem]:
    """Autopilot or Standard, each with what belongs to it."""
    yield from one_of(
        inputs, "releaseChannel.channel", "RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED"
    )
    yield from one_of(inputs, "networkingMode", "VPC_NATIVE", "ROUTES")
    yield from excludes(inputs, "ipAllocationPolicy", "clusterIpv4Cidr")
    if given(inputs, "enableAutopilot"):
        yield from _autopilot(inputs)
    elif not given(inputs, "initialNodeCount") and not given(inputs, "nodePools"):
        yield "initialNodeCount", "a Standard cluster starts with a pool: set initialNodeCount (or nodePools)"
    if given(inputs, "removeDefaultNodePool") and given(inputs, "nodePools"):
        yield "removeDefaultNodePool", "conflicts with nodePools"


def _autopilot(inputs: Inputs) -> Iterator[Problem]:
    for path in _NOT_ON_AUTOPILOT:
        if given(inputs, path):
            yield path, "conflicts with enableAutopilot"
    if "ROUTES" in texts(inputs, "networkingMode"):
        yield "networkingMode", "Autopilot clusters are VPC_NATIVE"
    if is_zonal(inputs):
        yield "location", f"{inputs['location']} is a zone; Autopilot clusters are regional"


def _node_zones(inputs: Inputs) -> Iterator[Problem]:
    """Nodes are in zones of their cluster's region."""
    for location in texts(inputs, "location"):
        region = location.rpartition("-")[0] if _ZONE.fullmatch(location) else location
        for zone in texts(inputs, "nodeLocations[]"):
            if zone.rpartition("-")[0] != region:
                yield "nodeLocations", f"{zone} is no zone of {region}"


def _node_config(inputs: Inputs) -> Iterator[Problem]:
    base = "nodeConfig"
    affinity = f"{base}.reservationAffinity"
    choices = ("SPECIFIC_RESERVATION", "NO_RESERVATION", "ANY_RESERVATION", "UNSPECIFIED")
    yield from one_of(inputs, f"{affinity}.consumeReservationType", *choices)
    specific = "SPECIFIC_RESERVATION" in texts(inputs, f"{affinity}.consumeReservationType")
    if specific and not (given(inputs, f"{affinity}.key") and given(inputs, f"{affinity}.values")):
        yield affinity, "SPECIFIC_RESERVATION needs key and values"
    driver = f"{base}.guestAccelerators[].gpuDriverInstallationConfig.gpuDriverVersion"
    yield from one_of(inputs, driver, "DEFAULT", "LATEST", "INSTALLATION_DISABLED")
    yield from one_of(inputs, f"{base}.workloadMetadataConfig.mode", "GKE_METADATA", "GCE_METADATA")
    yield from excludes(inputs, f"{base}.spot", f"{base}.preemptible", f"{base}.flexStart")
    yield from labels(inputs, f"{base}.resourceLabels")
    for count in at(inputs, f"{base}.guestAccelerators[].count"):
        if isinstance(count, int) and count < 1:
            yield f"{base}.guestAccelerators", "an accelerator count of less than one"


def _machine(inputs: Inputs) -> Iterator[Problem]:
    """The machine type is one of the catalogue, with the GPUs that are built into it, which are no choice.

    https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines
    """
    for name in texts(inputs, "nodeConfig.machineType"):
        if name not in MACHINES:
            near = "".join(f"; did you mean {each}?" for each in difflib.get_close_matches(name, MACHINES, 1))
            yield "nodeConfig.machineType", f"{name} is not in cloud/machines.py: add it there{near}"
    for machine in _machines(inputs, "nodeConfig"):
        stated = [
            (gpus.get("type"), gpus.get("count"))
            for gpus in at(inputs, "nodeConfig.guestAccelerators[]")
            if isinstance(gpus, Mapping)
        ]
        if stated and not machine.model:
            yield "nodeConfig.guestAccelerators", f"{machine.name} takes no GPUs"
        elif stated and machine.is_tpu:
            reason = f"{machine.name} has its TPU chips built in, and takes no GPUs"
            yield "nodeConfig.guestAccelerators", reason
        elif stated and stated != [(machine.accelerator, machine.count)]:
            yield (
                "nodeConfig.guestAccelerators",
                f"{machine.name} has {machine.count} {machine.accelerator}",
            )


def _machines(inputs: Inputs, base: str) -> Iterator[Machine]:
    """The machine that the inputs name, if it is known."""
    return (MACHINES[name] for name in texts(inputs, f"{base}.machineType") if name in MACHINES)


def _node_pool(inputs: Inputs) -> Iterator[Problem]:
    """Ways to say the same twice, and settings that need each other."""
    yield from excludes(inputs, "name", "namePrefix")
    yield from excludes(inputs, "nodeCount", "initialNodeCount")
    for count in ("autoscaling.totalMinNodeCount", "autoscaling.totalMaxNodeCount"):
        yield from excludes(inputs, count, "autoscaling.minNodeCount", "autoscaling.maxNodeCount")
    yield from one_of(inputs, "autoscaling.locationPolicy", "BALANCED", "ANY")
    yield from one_of(inputs, "placementPolicy.type", "COMPACT")
    if given(inputs, "placementPolicy.tpuTopology") and not given(inputs, "placementPolicy.type"):
        yield "placementPolicy.type", "a TPU topology needs COMPACT placement"
    if given(inputs, "queuedProvisioning.enabled") and not _consumes_no_reservation(inputs):
        # hashicorp/terraform-provider-google issue 18341
        yield (
            "nodeConfig.reservationAffinity",
            "queued provisioning needs consumeReservationType NO_RESERVATION",
        )


def _consumes_no_reservation(inputs: Inputs) -> bool:
    stated = set(texts(inputs, "nodeConfig.reservationAffinity.consumeReservationType"))
    return stated == {"NO_RESERVATION"}


def _size(inputs: Inputs) -> Iterator[Problem]:
    """A pool starts with nodes or may grow; its limits are in order."""
    counts = ("nodeCount", "initialNodeCount", "autoscaling")
    if not any(given(inputs, count) for count in counts):
        yield "nodeCount", "a pool without nodes that nothing scales"
    for least, most in (("totalMinNodeCount", "totalMaxNodeCount"), ("minNodeCount", "maxNodeCount")):
        for scaling in at(inputs, "autoscaling"):
            low, high = scaling.get(least, 0), scaling.get(most)
            if isinstance(low, int) and isinstance(high, int) and not low <= high:
                yield f"autoscaling.{least}", f"{low} is more than {most} {high}"


def _flex_start(inputs: Inputs) -> Iterator[Problem]:
    """https://docs.cloud.google.com/kubernetes-engine/docs/how-to/dws-flex-start-training"""
    if not given(inputs, "nodeConfig.flexStart"):
        return
    if not given(inputs, "autoscaling"):
        yield "autoscaling", "flex-start nodes come when pods ask for them: a pool of them is autoscaled"
    if given(inputs, "management.autoRepair"):
        yield "management.autoRepair", "conflicts with nodeConfig.flexStart"
    if not _consumes_no_reservation(inputs):
        yield "nodeConfig.reservationAffinity", "flex-start needs consumeReservationType NO_RESERVATION"


def _tpu(inputs: Inputs) -> Iterator[Problem]:
    """A pool with chips is a whole slice, and says what machines with chips need said.

    https://docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus
    """
    for machine in _machines(inputs, "nodeConfig"):
        if not machine.is_tpu:
            if given(inputs, "placementPolicy.tpuTopology"):
                yield "placementPolicy.tpuTopology", f"{machine.name} has no TPU chips"
            continue
        if not given(inputs, "nodeConfig.reservationAffinity.consumeReservationType"):
            yield (
                "nodeConfig.reservationAffinity",
                f"must be stated for {machine.name}: SPECIFIC_RESERVATION, or NO_RESERVATION",
            )
        for disk in texts(inputs, "nodeConfig.diskType"):
            if not disk.startswith("hyperdisk-"):
                yield "nodeConfig.diskType", f"{machine.name} takes no {disk}: give {machine.disk_type}"
        for topology in texts(inputs, "placementPolicy.tpuTopology"):
            yield from _slice(inputs, machine, topology)


def _slice(inputs: Inputs, machine: Machine, topology: str) -> Iterator[Problem]:
    wanted = machine.slice(topology)
    if wanted is None:
        shapes = ", ".join(machine.topologies)
        reason = f"no {topology} slice is made of {machine.name}; these are: {shapes}"
        yield "placementPolicy.tpuTopology", reason
    elif wanted.hosts == 1:
        yield "placementPolicy.tpuTopology", f"a slice of one {machine.name} has none: remove it"
    elif given(inputs, "autoscaling"):
        yield from _scaled(inputs, topology, wanted.hosts)
    else:
        zones = max(1, len(list(at(inputs, "nodeLocations[]"))))
        for path in ("nodeCount", "initialNodeCount"):
            for count in at(inputs, path):
                if isinstance(count, int) and (count, zones) != (wanted.hosts, 1):
                    reason = f"a {topology} slice of {machine.name} has {wanted.hosts} nodes in one zone"
                    yield path, reason


def _scaled(inputs: Inputs, topology: str, hosts: int) -> Iterator[Problem]:
    """Multi-host slices come and go as a whole."""
    for scaling in at(inputs, "autoscaling"):
        most = scaling.get("totalMaxNodeCount", scaling.get("maxNodeCount"))
        least = scaling.get("totalMinNodeCount", scaling.get("minNodeCount", 0))
        if isinstance(most, int) and isinstance(least, int) and (most != hosts or least not in (0, hosts)):
            yield "autoscaling", f"a {topology} slice has 0 or {hosts} nodes, never {least} to {most}"


def _ranges_of_subnetwork(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """A cluster's secondary ranges are those of its subnetwork."""
    policy = inputs.get("ipAllocationPolicy")
    subnetwork = existing.named(SUBNETWORK.type, str(inputs.get("subnetwork")))
    if not isinstance(policy, Mapping) or subnetwork is None:
        return
    ranges = {entry.get("rangeName") for entry in subnetwork.inputs.get("secondaryIpRanges", ())}
    for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
        if policy.get(key) not in (None, *ranges):
            yield f"pod secondary range {policy[key]!r} not found in subnet {inputs['subnetwork']}"


def _standard_cluster(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """Autopilot makes its nodes by itself and takes no pool."""
    cluster = existing.named(CLUSTER.type, str(inputs["cluster"]))
    if cluster is not None and cluster.inputs.get("enableAutopilot"):
        yield "Autopilot clusters do not support mutating node pools"


def _endpoint(made: Made) -> str:
    digits = made["digits"]
    return f"34.{int(digits[:3]) % 256}.{int(digits[3:6]) % 256}.{int(digits[6:8]) % 256}"


def _is_autopilot(inputs: Inputs) -> bool:
    return inputs.get("enableAutopilot") is True


CLUSTER: Final = Record(
    type="gcp:container/cluster:Cluster",
    api=API,
    id="projects/{project}/locations/{location}/clusters/{name}",
    outputs={
        "endpoint": _endpoint,
        "masterAuth": {"clusterCaCertificate": "cmVoZWFyc2Fs", "clientCertificate": "", "clientKey": ""},
        "masterVersion": _VERSION,
        "selfLink": "https://container.googleapis.com/v1/{id}",
        "workloadIdentityConfig": {"workloadPool": "{project}.svc.id.goog"},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"endpoint": "gke-{digits:.8}.{location}.gke.goog"}
        },
        "servicesIpv4Cidr": "10.8.0.0/20",
    },
    name=_NAME,
    labels="resourceLabels",
    replaced_by=(
        "clusterAutoscaling.autoProvisioningDefaults.bootDiskKmsKey clusterIpv4Cidr "
        "confidentialNodes datapathProvider dataplaneOptimizationMode defaultMaxPodsPerNode "
        "description enableAutopilot enableKubernetesAlpha initialNodeCount ipAllocationPolicy "
        "location masterAuth.clientCertificateConfig name network networkingMode nodePools "
        "privateClusterConfig.masterIpv4CidrBlock privateClusterConfig.privateEndpointSubnetwork "
        "project subnetwork " + _NODE_CONFIG_REPLACED_BY
    ),
    references={
        "network": NETWORK.type,
        "subnetwork": SUBNETWORK.type,
        "clusterAutoscaling.autoProvisioningDefaults.serviceAccount": ACCOUNT.type,
        "nodeConfig.serviceAccount": ACCOUNT.type,
    },
    holds=(NETWORK.type, SUBNETWORK.type),
    apis=_STREAMING,
    rules=(_cluster, _node_zones, _machine, _node_config),
    admission=(_ranges_of_subnetwork,),
    minutes=(
        Minutes(create=6, when=_is_autopilot, source="Autopilot 6 min, ahmet.im/blog/gke-autopilot (2021)"),
        Minutes(
            create=3.2,
            when=is_zonal,
            source="zonal Standard cluster 3.2 min, ahmet.im/blog/gke-autopilot (2021)",
        ),
        Minutes(create=9.12, source="regional Standard cluster 9 min 7 s, one log, tb-gcp issue 589"),
        Minutes(update=3, delete=4, assumption="no published figure found"),
    ),
    listing=Listing(
        title="cluster",
        api="container.v1",
        collection="projects.locations.clusters",
        gcloud="container clusters delete {name} --location {location}",
        everywhere=True,
        detail=lambda item: f"{item.get('currentNodeCount', 0)} nodes, {item.get('status', '')}",
    ),
    permissions=(
        *verbs("container.clusters", "create", "delete", "get", "update"),
        "container.operations.get",
    ),
    role=ADMIN,
    protected=True,
    billed=(
        Billed(
            key="cluster.autopilot",
            what="GKE cluster",
            unit="hour",
            service=_BILLING,
            description="Autopilot Kubernetes Clusters",
            when=_is_autopilot,
        ),
        Billed(
            key="cluster.standard",
            what="GKE cluster",
            unit="hour",
            service=_BILLING,
            description="Regional Kubernetes Clusters",
            when=lambda inputs: not _is_autopilot(inputs),
        ),
    ),
)

NODE_POOL: Final = Record(
    type="gcp:container/nodePool:NodePool",
    api=API,
    id="projects/{project}/locations/{location}/clusters/{cluster.last}/nodePools/{name}",
    outputs={
        "instanceGroupUrls": [],
        "managedInstanceGroupUrls": [],
        "version": _VERSION,
    },
    name=_NAME,
    replaced_by=(
        "cluster initialNodeCount location maxPodsPerNode name namePrefix "
        "networkConfig.acceleratorNetworkProfile networkConfig.additionalNodeNetworkConfigs "
        "networkConfig.createPodRange networkConfig.podCidrOverprovisionConfig "
        "networkConfig.podIpv4CidrBlock networkConfig.podRange networkConfig.subnetwork "
        "placementPolicy project queuedProvisioning " + _NODE_CONFIG_REPLACED_BY
    ),
    references={"cluster": CLUSTER.type, "nodeConfig.serviceAccount": ACCOUNT.type},
    apis=_STREAMING,
    rules=(_node_pool, _node_zones, _size, _flex_start, _machine, _tpu, _node_config),
    admission=(_standard_cluster,),
    minutes=(
        Minutes(
            create=0.75,
            source="node pool auto-creation 30-45 s each before 2026, thedailyscout / worldofsoftware",
        ),
        Minutes(update=2, delete=3, assumption="no published figure found"),
    ),
    listing=Listing(
        title="node pool",
        api="container.v1",
        collection="projects.locations.clusters.nodePools",
        gcloud="container node-pools delete {name} --cluster {parent} --location {location}",
        everywhere=True,
        inside="nodePools",
        detail=lambda item: item.get("status", ""),
    ),
    permissions=(*verbs("container.clusters", "get", "update"), "container.operations.get"),
    role=ADMIN,
)
