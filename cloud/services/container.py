"""Google Kubernetes Engine: clusters and node pools.

The rules of nodes are in nodes.py, with the sources of all rules. `replaced_by` and `kept` follow the
provider's schema (hashicorp/terraform-provider-google-beta, google-beta/services/container).
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import IPv4Network
from typing import Final

from cloud import nodes
from cloud.inputs import at, is_set, objects, texts
from cloud.record import (
    Billed,
    Existing,
    Inputs,
    Listing,
    Minutes,
    Name,
    Problem,
    Record,
    TemplateValues,
    verbs,
)
from cloud.rules import RFC1035, RFC1035_RULE, excludes, one_of, timestamps
from cloud.services.compute import NETWORK, SUBNETWORK
from cloud.services.serviceaccount import ACCOUNT

API: Final = "container.googleapis.com"
ADMIN: Final = "roles/container.admin"
_fee = partial(Billed, what="GKE cluster", unit="hour", service="CCD8-9BF1-090E")
_record = partial(
    Record,
    api=API,
    role=ADMIN,
    zonal=True,
    name=Name(pattern=RFC1035 % 38, rule=RFC1035_RULE % 40, automatic=True),
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/image-streaming
    apis={"nodeConfig.gcfsConfig.enabled": "containerfilesystem.googleapis.com"},
)

_EXCLUSIONS: Final = "maintenancePolicy.maintenanceExclusions[]"
_WINDOWS: Final = ("dailyMaintenanceWindow", "recurringWindow", "recurringMaintenanceWindow")

# What an Autopilot cluster decides by itself.
NOT_ON_AUTOPILOT: Final = (
    *("addonsConfig.networkPolicyConfig", "addonsConfig.dnsCacheConfig", "addonsConfig.statefulHaConfig"),
    *("clusterAutoscaling.enabled", "clusterAutoscaling.resourceLimits", "binaryAuthorization.enabled"),
    *("enableShieldedNodes", "networkPolicy", "nodePools", "removeDefaultNodePool"),
    *("defaultMaxPodsPerNode", "enableIntranodeVisibility"),
    # The provider accepts it. Then the platform rejects it or, for nodeConfig, every update replaces the
    # cluster (pulumi-gcp issue 2247).
    "nodeConfig",
)
# Below `nodeConfig` of clusters and node pools.
_NODE_CONFIG: Final = (
    "advancedMachineFeatures bootDiskKmsKey confidentialNodes.confidentialInstanceType "
    "enableConfidentialStorage ephemeralStorageLocalSsdConfig flexStart guestAccelerators "
    "hostMaintenancePolicy localSsdCount localSsdEncryptionMode maxRunDuration metadata minCpuPlatform "
    "nodeGroup oauthScopes preemptible reservationAffinity sandboxConfig secondaryBootDisks serviceAccount "
    "shieldedInstanceConfig spot"
)
# `kept` of all records is from the types of the npm package @pulumi/gcp 9.37.0: the properties that inputs
# may leave out and outputs always have.
_NODE_CONFIG_KEPT: Final = (
    "bootDisk bootDisk.diskType bootDisk.provisionedIops bootDisk.provisionedThroughput bootDisk.sizeGb "
    "confidentialNodes containerdConfig diskSizeGb diskType gcfsConfig gpudirectStrategy guestAccelerators "
    "guestAccelerators.gpuDriverInstallationConfig imageType kubeletConfig kubeletConfig.cpuCfsQuota "
    "kubeletConfig.insecureKubeletReadonlyPortEnabled kubeletConfig.maxParallelImagePulls labels "
    "linuxNodeConfig linuxNodeConfig.cgroupMode linuxNodeConfig.transparentHugepageEnabled localSsdCount "
    "loggingVariant machineType metadata minCpuPlatform nodeImageConfigs oauthScopes serviceAccount "
    "shieldedInstanceConfig windowsNodeConfig workloadMetadataConfig"
)
# https://github.com/hashicorp/terraform-provider-google-beta: google-beta/services/container/node_config.go
_NODE_DEFAULTS: Final = {
    "nodeConfig.enableConfidentialStorage": False,
    "nodeConfig.flexStart": False,
    "nodeConfig.guestAccelerators": [],
    "nodeConfig.preemptible": False,
    "nodeConfig.shieldedInstanceConfig.enableIntegrityMonitoring": True,
    "nodeConfig.spot": False,
}
_SETS: Final = "nodeConfig.oauthScopes nodeLocations"


def _below(block: str, paths: str) -> str:
    return " ".join(f"{block}.{path}" for path in paths.split())


_NODE_CONFIG_REPLACED_BY: Final = _below("nodeConfig", _NODE_CONFIG)
_RANGES: Final = _below(
    "ipAllocationPolicy",
    "clusterIpv4CidrBlock clusterSecondaryRangeName podCidrOverprovisionConfig servicesIpv4CidrBlock "
    "servicesSecondaryRangeName",
)
_ADDONS: Final = (
    "cloudrunConfig configConnectorConfig dnsCacheConfig gcePersistentDiskCsiDriverConfig "
    "gcpFilestoreCsiDriverConfig gcsFuseCsiDriverConfig gkeBackupAgentConfig highScaleCheckpointingConfig "
    "horizontalPodAutoscaling httpLoadBalancing lustreCsiDriverConfig networkPolicyConfig "
    "parallelstoreCsiDriverConfig rayOperatorConfigs rayOperatorConfigs.rayClusterLoggingConfig "
    "rayOperatorConfigs.rayClusterMonitoringConfig statefulHaConfig"
)


def _cluster(inputs: Inputs) -> Iterator[Problem]:
    """An Autopilot or a Standard cluster has the settings of its kind."""
    yield from one_of(
        inputs, "releaseChannel.channel", "RAPID", "REGULAR", "STABLE", "EXTENDED", "UNSPECIFIED"
    )
    yield from one_of(inputs, "networkingMode", "VPC_NATIVE", "ROUTES")
    datapaths = ("ADVANCED_DATAPATH", "LEGACY_DATAPATH", "DATAPATH_PROVIDER_UNSPECIFIED")
    yield from one_of(inputs, "datapathProvider", *datapaths)
    for path in ("addonsConfig", "privateClusterConfig"):
        for block in objects(inputs, path):
            if all(value is None for value in block.values()):
                yield path, "is empty: state one of its properties, or leave it out"
    yield from excludes(inputs, "ipAllocationPolicy", "clusterIpv4Cidr")
    if is_set(inputs, "enableAutopilot"):
        yield from _autopilot(inputs)
    elif not is_set(inputs, "initialNodeCount") and not is_set(inputs, "nodePools"):
        yield "initialNodeCount", "a Standard cluster starts with a pool: set initialNodeCount (or nodePools)"
    if is_set(inputs, "removeDefaultNodePool") and is_set(inputs, "nodePools"):
        yield "removeDefaultNodePool", "conflicts with nodePools"


def _maintenance(inputs: Inputs) -> Iterator[Problem]:
    """One window, and exclusions that say what they exclude and until when.

    https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions
    """
    for stated in objects(inputs, "maintenancePolicy"):
        if sum(is_set(stated, window) for window in _WINDOWS) != 1:
            yield "maintenancePolicy", f"needs exactly one of {', '.join(_WINDOWS)}"
    for exclusion in objects(inputs, _EXCLUSIONS):
        if is_set(exclusion, "endTime") == is_set(exclusion, "exclusionOptions.endTimeBehavior"):
            yield _EXCLUSIONS, "needs exactly one of endTime and exclusionOptions.endTimeBehavior"
    window = "maintenancePolicy.recurringWindow"
    ends = (f"{block}.{end}Time" for block in (window, _EXCLUSIONS) for end in ("start", "end"))
    yield from timestamps(inputs, *ends)
    for text in texts(inputs, "maintenancePolicy.dailyMaintenanceWindow.startTime"):
        if not re.fullmatch(r"([01]\d|2[0-3]):[0-5]\d", text):
            yield "maintenancePolicy.dailyMaintenanceWindow", f"{text!r} is not a time such as 03:00"
    options = f"{_EXCLUSIONS}.exclusionOptions"
    yield from one_of(inputs, f"{options}.endTimeBehavior", "UNTIL_END_OF_SUPPORT")
    scopes = ("NO_UPGRADES", "NO_MINOR_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES")
    yield from one_of(inputs, f"{options}.scope", *scopes)


def _control_plane(inputs: Inputs) -> Iterator[Problem]:
    """A private address answers private networks only (the API's own message)."""
    path = "masterAuthorizedNetworksConfig.cidrBlocks"
    for text in texts(inputs, f"{path}[].cidrBlock"):
        if is_set(inputs, "privateClusterConfig.enablePrivateEndpoint") and IPv4Network(text).is_global:
            yield path, f"{text} is not a reserved network, which is required for private endpoints"


def _autopilot(inputs: Inputs) -> Iterator[Problem]:
    for path in NOT_ON_AUTOPILOT:
        if is_set(inputs, path):
            yield path, "conflicts with enableAutopilot"
    if "ROUTES" in texts(inputs, "networkingMode"):
        yield "networkingMode", "Autopilot clusters are VPC_NATIVE"
    if nodes.is_zonal(inputs):
        yield "location", f"{inputs['location']} is a zone; Autopilot clusters are regional"


def _ranges_of_subnetwork(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """A cluster takes its secondary ranges from its subnetwork."""
    policy = inputs.get("ipAllocationPolicy")
    subnetwork = existing.named(SUBNETWORK.type, str(inputs.get("subnetwork")))
    if not isinstance(policy, Mapping) or subnetwork is None:
        return
    ranges = {entry.get("rangeName") for entry in subnetwork.inputs.get("secondaryIpRanges", ())}
    for key in ("clusterSecondaryRangeName", "servicesSecondaryRangeName"):
        if policy.get(key) not in (None, *ranges):
            yield f"pod secondary range {policy[key]!r} not found in subnet {inputs['subnetwork']}"


def _standard_cluster(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """Autopilot creates its nodes by itself and accepts no node pool."""
    cluster = existing.named(CLUSTER.type, str(inputs["cluster"]))
    if cluster is not None and cluster.inputs.get("enableAutopilot"):
        yield "Autopilot clusters do not support mutating node pools"


def _place(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """A pool names its cluster's location, whether that is a region or a zone."""
    cluster = existing.named(CLUSTER.type, str(inputs["cluster"]))
    stated, needed = inputs.get("location"), cluster and cluster.inputs.get("location")
    if stated and needed and stated != needed:
        name = f"projects/*/locations/{stated}/clusters/{str(inputs['cluster']).rpartition('/')[2]}"
        yield f"googleapi: Error 404: Not found: {name}; it is in {needed}., notFound"


def _upgrades(inputs: Inputs, existing: Existing) -> Iterator[str]:
    """https://github.com/nkoson/gke-tutorial/issues/8"""
    cluster = existing.named(CLUSTER.type, str(inputs["cluster"]))
    for channel in texts(cluster.inputs if cluster else {}, "releaseChannel.channel"):
        if channel != "UNSPECIFIED" and False in at(inputs, "management.autoUpgrade"):
            yield f"Auto_upgrade cannot be false when release_channel {channel} is set."


def _endpoint(values: TemplateValues) -> str:
    digits = values["digits"]
    return f"34.{int(digits[:3]) % 256}.{int(digits[3:6]) % 256}.{int(digits[6:8]) % 256}"


def _dns_endpoint(values: TemplateValues) -> str:
    return f"gke-{values['digits'][:12]}.{values['location']}.gke.goog"


def _is_autopilot(inputs: Inputs) -> bool:
    return inputs.get("enableAutopilot") is True


CLUSTER: Final = _record(
    type="gcp:container/cluster:Cluster",
    id="projects/{project}/locations/{location}/clusters/{name}",
    outputs={
        "endpoint": _endpoint,
        # GKE names it whether or not it is open.
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": _dns_endpoint}},
        "masterAuth": {"clusterCaCertificate": "cmVoZWFyc2Fs", "clientCertificate": "", "clientKey": ""},
        "selfLink": "https://container.googleapis.com/v1/{id}",
        "workloadIdentityConfig": {"workloadPool": "{project}.svc.id.goog"},
    },
    labels="resourceLabels",
    replaced_by=(
        "clusterAutoscaling.autoProvisioningDefaults.bootDiskKmsKey clusterIpv4Cidr "
        "confidentialNodes datapathProvider dataplaneOptimizationMode defaultMaxPodsPerNode "
        "description enableAutopilot enableKubernetesAlpha initialNodeCount "
        "location masterAuth.clientCertificateConfig name network networkingMode nodePools "
        "privateClusterConfig.masterIpv4CidrBlock privateClusterConfig.privateEndpointSubnetwork "
        f"project subnetwork {_RANGES} {_NODE_CONFIG_REPLACED_BY}"
    ),
    # google-beta/services/container/resource_container_cluster.go: `ForceNewIfChange` of the field
    replaced_when={"enableFqdnNetworkPolicy": lambda old, new: bool(old) and not new},
    kept=(
        f"{_below('addonsConfig', _ADDONS)} "
        "binaryAuthorization.evaluationMode clusterAutoscaling.autoProvisioningDefaults "
        "clusterAutoscaling.autoProvisioningDefaults.management "
        "clusterAutoscaling.autoProvisioningDefaults.oauthScopes "
        "clusterAutoscaling.autoProvisioningDefaults.upgradeSettings "
        "clusterAutoscaling.autoProvisioningLocations clusterAutoscaling.enabled "
        "clusterAutoscaling.resourceLimits controlPlaneEndpointsConfig.dnsEndpointConfig "
        "controlPlaneEndpointsConfig.ipEndpointsConfig ipAllocationPolicy.autoIpamConfig "
        "ipAllocationPolicy.networkTierConfig maintenancePolicy.dailyMaintenanceWindow.duration "
        "masterAuthorizedNetworksConfig.gcpPublicCidrsAccessEnabled "
        "masterAuthorizedNetworksConfig.privateEndpointEnforcementEnabled "
        "monitoringConfig.advancedDatapathObservabilityConfig monitoringConfig.enableComponents "
        "monitoringConfig.managedPrometheus privateClusterConfig.masterGlobalAccessConfig "
        "privateClusterConfig.masterIpv4CidrBlock securityPostureConfig.mode "
        f"securityPostureConfig.vulnerabilityMode {_RANGES} {_below('nodeConfig', _NODE_CONFIG_KEPT)}"
    ),
    defaults={
        "controlPlaneEndpointsConfig.ipEndpointsConfig.enabled": True,
        "enableKubernetesAlpha": False,
        **_NODE_DEFAULTS,
    },
    sets=f"monitoringConfig.enableComponents {_SETS}",
    references={
        "network": NETWORK.type,
        "subnetwork": SUBNETWORK.type,
        "clusterAutoscaling.autoProvisioningDefaults.serviceAccount": ACCOUNT.type,
        "nodeConfig.serviceAccount": ACCOUNT.type,
    },
    holds=(NETWORK.type, SUBNETWORK.type),
    rules=(_cluster, _control_plane, _maintenance, nodes.node_zones, nodes.machine_type, nodes.node_config),
    admission=(_ranges_of_subnetwork,),
    minutes=(
        Minutes(create=6, when=_is_autopilot, source="Autopilot 6 min, ahmet.im/blog/gke-autopilot (2021)"),
        Minutes(
            create=3.2,
            when=nodes.is_zonal,
            source="zonal Standard cluster 3.2 min, ahmet.im/blog/gke-autopilot (2021)",
        ),
        Minutes(create=9.12, source="regional Standard cluster 9 min 7 s, one log, tb-gcp issue 589"),
        Minutes(update=3, delete=4, assumption="minutes-call"),
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
        # `connect` is for the DNS endpoint (assumption dns-endpoint).
        *verbs("container.clusters", "connect", "create", "delete", "get", "update"),
        "container.operations.get",
    ),
    protected=True,
    billed=(
        _fee(key="cluster.autopilot", description="Autopilot Kubernetes Clusters", when=_is_autopilot),
        _fee(
            key="cluster.standard",
            description="Regional Kubernetes Clusters",
            when=lambda inputs: not _is_autopilot(inputs),
        ),
    ),
)

NODE_POOL: Final = _record(
    type="gcp:container/nodePool:NodePool",
    id="projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    replaced_by=(
        "cluster initialNodeCount location maxPodsPerNode name namePrefix "
        "networkConfig.acceleratorNetworkProfile networkConfig.additionalNodeNetworkConfigs "
        "networkConfig.createPodRange networkConfig.podCidrOverprovisionConfig "
        "networkConfig.podIpv4CidrBlock networkConfig.podRange networkConfig.subnetwork "
        "placementPolicy.policyName project queuedProvisioning " + _NODE_CONFIG_REPLACED_BY
    ),
    kept=(
        "autoscaling.locationPolicy networkConfig.additionalNodeNetworkConfigs "
        "networkConfig.enablePrivateNodes networkConfig.podCidrOverprovisionConfig "
        "networkConfig.podIpv4CidrBlock networkConfig.podRange networkConfig.subnetwork "
        "upgradeSettings.blueGreenSettings upgradeSettings.maxSurge upgradeSettings.maxUnavailable "
        + _below("nodeConfig", _NODE_CONFIG_KEPT)
    ),
    defaults={
        "autoscaling.totalMinNodeCount": 0,
        "management.autoRepair": True,
        "management.autoUpgrade": True,
        "upgradeSettings.strategy": "SURGE",
        **_NODE_DEFAULTS,
    },
    sets=_SETS,
    references={"cluster": CLUSTER.type, "nodeConfig.serviceAccount": ACCOUNT.type},
    rules=(
        *(nodes.settings, nodes.node_zones, nodes.flex_start, nodes.queued),
        *(nodes.machine_type, nodes.boot_disk, nodes.tpu_slice, nodes.node_config),
    ),
    admission=(_standard_cluster, _place, _upgrades),
    minutes=(
        Minutes(
            create=0.75,
            source="node pool auto-creation 30-45 s each before 2026, thedailyscout / worldofsoftware",
        ),
        Minutes(update=2, delete=3, assumption="minutes-call"),
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
)
