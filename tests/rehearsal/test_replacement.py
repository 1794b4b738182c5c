"""Which changes replace and which update, as the providers decide it."""

import json
from typing import Any

import pytest

from cloud.record import EVERY_INPUT, Record
from engine.plan import changed_paths
from rehearsal.rules.schema import _declared, _required, args_class
from tests.cloud.test_records import OF_GOOGLE, by_type
from tests.rehearsal.asking import Platform
from tests.rehearsal.right import (
    BUCKET,
    BUCKET_MEMBER,
    CLUSTER,
    CONFIG_MAP,
    JOB,
    KUBE_SERVICE,
    NETWORK,
    NODE_POOL,
    RELEASE,
    RUN_JOB,
    RUN_SERVICE,
    SERVICE,
    SUBNETWORK,
)

ALERT_POLICY = "gcp:monitoring/alertPolicy:AlertPolicy"
DASHBOARD = "gcp:monitoring/dashboard:Dashboard"
REPOSITORY = "gcp:artifactregistry/repository:Repository"
SECRET = "gcp:secretmanager/secret:Secret"
PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"


def kube(kind: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a", "namespace": "n"}, **fields}


def pool(**config: Any) -> dict[str, Any]:
    return {"nodeConfig": config}


def placed(**policy: str) -> dict[str, Any]:
    return {"placementPolicy": policy}


def ranges(**policy: str) -> dict[str, Any]:
    return {"ipAllocationPolicy": policy}


def channel(name: str) -> dict[str, Any]:
    return {"releaseChannel": {"channel": name}}


def private(block: str) -> dict[str, Any]:
    return {"privateClusterConfig": {"masterIpv4CidrBlock": block, "enablePrivateNodes": True}}


def job(**spec: Any) -> dict[str, Any]:
    return kube("Job", spec=spec)


def copies(*replicas: dict[str, Any]) -> dict[str, Any]:
    return {"replication": {"userManaged": {"replicas": [*replicas]}}}


KEY = {"customerManagedEncryption": {"kmsKeyName": "k"}}
GPUS = [{"count": 1, "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"}}]
RELEASED = {"name": "kueue", "namespace": "kueue-system", "version": "1"}
CHANGES: list[tuple[str, dict[str, Any], dict[str, Any], list[str], list[str]]] = [
    # type, old inputs, new inputs, what updates, what replaces
    (BUCKET, {"labels": {"a": "b"}}, {"labels": {"a": "c"}}, ["labels"], []),
    (BUCKET, {"location": "us"}, {"location": "eu"}, [], ["location"]),
    (BUCKET, {"location": "us"}, {"location": "us"}, [], []),
    (CLUSTER, channel("RAPID"), channel("STABLE"), ["releaseChannel"], []),
    (CLUSTER, {"enableAutopilot": True}, {}, [], ["enableAutopilot"]),
    (CLUSTER, private("a"), private("b"), [], ["privateClusterConfig"]),
    (CLUSTER, {"enableFqdnNetworkPolicy": True}, {}, [], ["enableFqdnNetworkPolicy"]),
    (CLUSTER, {}, {"enableFqdnNetworkPolicy": True}, ["enableFqdnNetworkPolicy"], []),
    (NODE_POOL, {"nodeCount": 1}, {"nodeCount": 2}, ["nodeCount"], []),
    (NODE_POOL, pool(spot=True), pool(spot=False), [], ["nodeConfig"]),
    (NODE_POOL, pool(labels={"a": "b"}), pool(labels={}), ["nodeConfig"], []),
    (
        NODE_POOL,
        pool(guestAccelerators=[{"count": 1}]),
        pool(guestAccelerators=[{"count": 2}]),
        [],
        ["nodeConfig"],
    ),
    (NODE_POOL, placed(type="COMPACT"), placed(type="COMPACT", tpuTopology="4x4"), ["placementPolicy"], []),
    (NODE_POOL, placed(type="COMPACT"), placed(type="COMPACT", policyName="a"), [], ["placementPolicy"]),
    (NODE_POOL, placed(type="COMPACT", tpuTopology="4x4"), {}, ["placementPolicy"], []),
    (NODE_POOL, placed(type="COMPACT", policyName="a"), {}, [], ["placementPolicy"]),
    # What the program states no longer stays as it is, where the provider knows it without the program.
    (NODE_POOL, pool(guestAccelerators=GPUS), pool(spot=None), [], []),
    (NODE_POOL, pool(guestAccelerators=GPUS), pool(guestAccelerators=[{"count": 1}]), [], []),
    (NODE_POOL, pool(guestAccelerators=[{"count": 1}]), pool(guestAccelerators=GPUS), [], ["nodeConfig"]),
    (NODE_POOL, pool(oauthScopes=["a"]), {}, [], []),
    (NODE_POOL, pool(spot=True, machineType="a"), pool(machineType="a"), [], ["nodeConfig"]),
    (CLUSTER, ranges(clusterSecondaryRangeName="a"), {}, [], []),
    # The objects of a cluster stay under the key. docs/in-a-company.md says what to do before it goes.
    (CLUSTER, {"databaseEncryption": {"state": "ENCRYPTED", "keyName": "k"}}, {}, [], []),
    (CLUSTER, {}, ranges(clusterSecondaryRangeName="a"), [], ["ipAllocationPolicy"]),
    (CLUSTER, ranges(stackType="IPV4"), ranges(stackType="IPV4_IPV6"), ["ipAllocationPolicy"], []),
    (CLUSTER, {"addonsConfig": {"rayOperatorConfigs": [{"enabled": True}]}}, {}, [], []),
    (SUBNETWORK, {"ipCidrRange": "10.0.0.0/20"}, {"ipCidrRange": "10.0.0.0/16"}, ["ipCidrRange"], []),
    (SUBNETWORK, {"ipCidrRange": "10.0.0.0/16"}, {"ipCidrRange": "10.0.0.0/20"}, [], ["ipCidrRange"]),
    (SECRET, copies({"location": "a"}), copies({"location": "a", **KEY}), ["replication"], []),
    (SECRET, copies({"location": "a", **KEY}), copies({"location": "a"}), ["replication"], []),
    (SECRET, copies({"location": "a"}), copies({"location": "b"}), [], ["replication"]),
    (SECRET, copies({"location": "a"}), copies({"location": "a"}, {"location": "b"}), [], ["replication"]),
    (SECRET, {"replication": {"auto": {}}}, copies({"location": "a"}), [], ["replication"]),
    (BUCKET_MEMBER, {"role": "a"}, {"role": "b"}, [], ["role"]),
    (CONFIG_MAP, kube("ConfigMap", data={"a": "b"}), kube("ConfigMap", data={"a": "c"}), [], ["data"]),
    (JOB, job(template={"spec": {"x": 1}}), job(template={"spec": {"x": 2}}), [], ["spec"]),
    (JOB, job(backoffLimit=1), job(backoffLimit=2), ["spec"], []),
    (KUBE_SERVICE, kube("Service", spec={"clusterIP": "None"}), kube("Service", spec={}), [], ["spec"]),
    (RELEASE, RELEASED, {**RELEASED, "namespace": "elsewhere"}, [], ["namespace"]),
    (RELEASE, RELEASED, {**RELEASED, "version": "2"}, ["version"], []),
]


@pytest.mark.parametrize(("type_token", "olds", "news", "updates", "replaces"), CHANGES)
def test_a_change_updates_or_replaces(
    type_token: str, olds: dict[str, Any], news: dict[str, Any], updates: list[str], replaces: list[str]
) -> None:
    diff = Platform().diff(type_token, "x", olds, news)
    assert {path.split(".")[0] for path in diff.replaces} == {*replaces}
    assert {path.split(".")[0] for path in (*diff.updates, *diff.replaces)} == {*updates, *replaces}


def container(**resources: Any) -> dict[str, Any]:
    return {"template": {"containers": [{"image": "i", "resources": {"limits": {"cpu": "4"}, **resources}}]}}


def task(**more: Any) -> dict[str, Any]:
    return {"template": {"taskCount": 1, "template": {"maxRetries": 3, **more}}}


def upgrades(**settings: Any) -> dict[str, Any]:
    return {"upgradeSettings": {"maxSurge": 1, **settings}}


def endpoints(**ip: Any) -> dict[str, Any]:
    return {"controlPlaneEndpointsConfig": {"ipEndpointsConfig": ip}}


def probe(**settings: int) -> dict[str, Any]:
    probed = {"image": "i", "startupProbe": {"failureThreshold": 3, **settings}}
    return {"template": {"containers": [probed]}}


def text_of(**more: str) -> dict[str, Any]:
    return {"documentation": {"content": "c", **more}}


def charts(*widgets: dict[str, Any]) -> dict[str, Any]:
    return {"dashboardJson": json.dumps({"tiles": [{"widget": widget} for widget in widgets]})}


def measured(*components: str) -> dict[str, Any]:
    return {"monitoringConfig": {"enableComponents": [*components]}}


def upstreams(*names: str) -> dict[str, Any]:
    policies = [{"id": name, "repository": name, "priority": ord(name)} for name in names]
    return {"virtualRepositoryConfig": {"upstreamPolicies": policies}}


SECURE = {"shieldedInstanceConfig": {"enableSecureBoot": True}}
WATCHED = {"enableIntegrityMonitoring": True}
# The type, the old inputs and the new ones. The real provider sees no difference.
SAME: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # Optional and computed in the provider's schema.
    (SUBNETWORK, {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}]}, {}),
    (SUBNETWORK, {"ipCidrRange": "10.0.0.0/20"}, {}),
    (BUCKET, {"softDeletePolicy": {"retentionDurationSeconds": 0}}, {}),
    (BUCKET, {"publicAccessPrevention": "enforced"}, {}),
    (RUN_JOB, task(serviceAccount="a@p.iam.gserviceaccount.com", timeout="3600s"), task()),
    (RUN_JOB, task(), {"template": {"template": {"maxRetries": 3}}}),
    (RUN_SERVICE, {"scaling": {"minInstanceCount": 0}}, {}),
    (RUN_SERVICE, {"template": {"scaling": {"maxInstanceCount": 1}}}, {"template": {}}),
    (NODE_POOL, upgrades(maxUnavailable=1), upgrades()),
    (NODE_POOL, upgrades(), {}),
    (NODE_POOL, pool(spot=True, gcfsConfig={"enabled": True}), pool(spot=True)),
    (CLUSTER, {"addonsConfig": {"rayOperatorConfigs": [{"enabled": True}]}}, {"addonsConfig": {}}),
    (RUN_SERVICE, container(), {"template": {"containers": [{"image": "i", "resources": {}}]}}),
    (RUN_JOB, task(containers=[{"image": "i"}]), task()),
    (NODE_POOL, pool(spot=True, oauthScopes=["a"]), pool(spot=True)),
    # A default, stated or not.
    (NODE_POOL, pool(shieldedInstanceConfig=WATCHED | {"enableSecureBoot": True}), pool(**SECURE)),
    (NODE_POOL, {"autoscaling": {"totalMinNodeCount": 0, "a": 1}}, {"autoscaling": {"a": 1}}),
    (CLUSTER, endpoints(enabled=True, a=1), endpoints(a=1)),
    (REPOSITORY, {"cleanupPolicyDryRun": False}, {}),
    (SERVICE, {"disableOnDestroy": False}, {}),
    (RUN_SERVICE, {"invokerIamDisabled": False}, {}),
    (
        RUN_SERVICE,
        {"template": {"scaling": {"minInstanceCount": 0, "a": 1}}},
        {"template": {"scaling": {"a": 1}}},
    ),
    (RUN_SERVICE, probe(periodSeconds=10), probe()),
    (ALERT_POLICY, text_of(mimeType="text/markdown"), text_of()),
    # A dashboard that loses a property.
    (DASHBOARD, charts({"title": "a", "unit": "s"}), charts({"title": "a"})),
    (RUN_SERVICE, container(cpuIdle=False), container()),
    (RUN_JOB, task(), {"template": {"taskCount": 1, "template": {}}}),
    (NODE_POOL, pool(machineType="a", spot=False), pool(machineType="a")),
    (NODE_POOL, pool(machineType="a"), pool(machineType="a", flexStart=False)),
    (NODE_POOL, pool(machineType="a"), pool(machineType="a", guestAccelerators=[])),
    (BUCKET, {"forceDestroy": False}, {}),
    # A set in other words.
    (NODE_POOL, pool(oauthScopes=["a"]), pool(oauthScopes=["a", "a"])),
    (NODE_POOL, {"nodeLocations": ["a", "b"]}, {"nodeLocations": ["b", "a"]}),
    (CLUSTER, measured("a", "b"), measured("b", "a")),
    (REPOSITORY, upstreams("a", "b"), upstreams("b", "a")),
]


@pytest.mark.parametrize(("type_token", "olds", "news"), SAME)
def test_what_the_provider_keeps_has_by_default_or_reads_as_a_set_is_no_change(
    type_token: str, olds: dict[str, Any], news: dict[str, Any]
) -> None:
    difference = Platform().diff(type_token, "x", olds, news)
    assert (difference.updates, difference.replaces) == ([], [])


@pytest.mark.parametrize(
    ("type_token", "olds", "news"),
    [
        # Another default, no default, or another value than before.
        (NETWORK, {"autoCreateSubnetworks": False}, {}),
        (RUN_SERVICE, container(cpuIdle=True), container()),
        (
            NODE_POOL,
            pool(machineType="a", guestAccelerators=GPUS),
            pool(machineType="a", guestAccelerators=[]),
        ),
        (NODE_POOL, pool(oauthScopes=["a", "b"]), pool(oauthScopes=["a"])),
        (SUBNETWORK, {}, {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/14"}]}),
        (BUCKET, {"labels": {"a": "b"}}, {}),
        (DASHBOARD, charts({"title": "a"}), charts({"title": "a", "unit": "s"})),
        (DASHBOARD, charts({"title": "a"}, {"title": "b"}), charts({"title": "a"})),
        (DASHBOARD, charts({"title": "a"}), charts({"title": "b"})),
        (REPOSITORY, upstreams("a", "b"), upstreams("a", "c")),
        (
            NODE_POOL,
            pool(shieldedInstanceConfig={"enableIntegrityMonitoring": False}),
            pool(shieldedInstanceConfig={"enableSecureBoot": True}),
        ),
    ],
)
def test_a_real_change_beside_these_is_one(
    type_token: str, olds: dict[str, Any], news: dict[str, Any]
) -> None:
    difference = Platform().diff(type_token, "x", olds, news)
    assert difference.updates or difference.replaces


def test_another_namespace_is_another_object() -> None:
    olds = kube("ConfigMap")
    diff = Platform().diff(CONFIG_MAP, "x", olds, {**olds, "metadata": {"name": "a", "namespace": "m"}})
    assert diff.replaces == ["metadata.namespace"]
    assert not diff.delete_before_replace


@pytest.mark.parametrize(
    ("type_token", "named", "old", "new", "first"),
    [
        (BUCKET, {"name": "b"}, {"location": "us"}, {"location": "eu"}, True),
        (BUCKET, {"name": "b-1", "__defaults": ["name"]}, {"location": "us"}, {"location": "eu"}, False),
        # A name that is set later: what the old one was is not asked.
        (BUCKET, {}, {"name": "b-1", "__defaults": ["name"]}, {"name": "b"}, True),
        (BUCKET, {}, {"name": "b"}, {"name": "b-1", "__defaults": ["name"]}, False),
        (PROJECT_MEMBER, {"member": "user:a@example.com"}, {"role": "roles/a"}, {"role": "roles/b"}, True),
        (BUCKET_MEMBER, {"member": "user:a@example.com"}, {"role": "roles/a"}, {"role": "roles/b"}, False),
        (CONFIG_MAP, kube("ConfigMap"), {"data": {"a": "b"}}, {"data": {}}, True),
        (
            CONFIG_MAP,
            {"metadata": {"name": "a", "annotations": {"pulumi.com/autonamed": "true"}}},
            {"data": {"a": "b"}},
            {"data": {}},
            False,
        ),
    ],
)
def test_a_fixed_name_must_be_free_first_and_an_automatic_one_need_not(
    type_token: str, named: dict[str, Any], old: dict[str, Any], new: dict[str, Any], first: bool
) -> None:
    diff = Platform().diff(type_token, "x", {**named, **old}, {**named, **new})
    assert diff.replaces and diff.delete_before_replace is first


# `DeleteBeforeReplace: true` in pulumi-gcp's provider/resources.go and provider/secret_manager.go.
ALWAYS_FIRST = {PROJECT_MEMBER, "gcp:secretmanager/secret:Secret"}


@pytest.mark.parametrize("record", OF_GOOGLE, ids=by_type)
def test_what_takes_a_stated_name_goes_first_and_what_has_an_automatic_one_does_not(record: Record) -> None:
    """An input that Google needs and the SDK does not is one that the bridge makes up where it is missing."""
    cls = args_class(record.type)
    assert cls
    names = {"name", record.name.input if record.name else "name"} & _declared(cls).keys()
    automatic = names - {*_required(cls)}
    paths = ["role"] if record.replaced_by == EVERY_INPUT else record.replaced_by.split()
    change = next(path for path in paths if "." not in path and path not in automatic)

    def first(**stated: Any) -> bool:
        diff = Platform().diff(record.type, "x", {**stated, change: "old"}, {**stated, change: "new"})
        assert diff.replaces
        return diff.delete_before_replace

    for key in automatic:
        assert first(**{key: "mine"})
        assert first(**{key: "mine-1234567", "__defaults": [key]}) is (record.type in ALWAYS_FIRST)
    if not automatic:
        assert first(**dict.fromkeys(names, "mine")) is (record.type in ALWAYS_FIRST)
    assert not record.name or record.name.automatic is (record.name.input in automatic)


def test_paths_of_changes_go_as_deep_as_the_change() -> None:
    olds = {"a": {"b": [{"c": 1}, {"c": 2}]}, "d": [1], "__defaults": ["x"]}
    news = {"a": {"b": [{"c": 1}, {"c": 3}]}, "d": [1, 2], "__defaults": []}
    assert list(changed_paths(olds, news)) == ["a.b[1].c", "d"]


@pytest.mark.parametrize(
    ("old", "new", "replaces"),
    [
        (("a", "c"), ("b", "c"), []),
        (("a", "c"), ("a", "d"), ["clusterIdentifier"]),
        (("a",), ("b",), ["kubeconfig"]),
    ],
)
def test_a_provider_is_replaced_for_another_cluster_and_not_for_another_kubeconfig(
    old: tuple[str, ...], new: tuple[str, ...], replaces: list[str]
) -> None:
    keys = ("kubeconfig", "clusterIdentifier")
    olds, news = (dict(zip(keys, values, strict=False)) for values in (old, new))
    assert Platform().kubernetes.diff_config(olds, news).replaces == replaces
