"""What the fake Google provider does with resources, asked without the engine."""

from typing import Any

import pytest

from cloud.inputs import UNKNOWN
from rehearsal.fakes.cloud import Rejected
from tests.rehearsal.asking import AUTOPILOT, STANDARD, Platform
from tests.rehearsal.right import (
    ACCOUNT,
    BUCKET,
    BUCKET_MEMBER,
    CLUSTER,
    NAT,
    NETWORK,
    NODE_POOL,
    OBJECT,
    SERVICE,
    SUBNETWORK,
)

PROJECT_MEMBER = "gcp:projects/iAMMember:IAMMember"
REGIONAL = {"region": "us-central1", "ipCidrRange": "10.0.0.0/20"}
POOL: dict[str, Any] = {"name": "pool", "cluster": "c", "location": "us-central1", "nodeCount": 1}
IDENTITIES = "iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p.svc.id.goog"


@pytest.fixture
def platform() -> Platform:
    return Platform("compute", "container", "iam", "cloudresourcemanager", "run")


# Names and previews


def test_a_resource_without_a_name_gets_one_with_seven_random_digits_and_keeps_it(platform: Platform) -> None:
    first, _ = platform.check(BUCKET, "a4-ray-bucket", {"location": "us"})
    assert first == {"location": "us", "name": "a4-ray-bucket-6162636", "__defaults": ["name"]}
    assert platform.check(BUCKET, "b", {"location": "us"}, olds=first, seed=b"different")[0] == first


def test_a_name_that_is_no_longer_stated_stays(platform: Platform) -> None:
    checked, _ = platform.check(BUCKET, "b", {"location": "us"}, olds={"location": "us", "name": "mine"})
    assert checked == {"location": "us", "name": "mine", "__defaults": ["name"]}


@pytest.mark.parametrize(
    ("type_token", "inputs", "longest"),
    [(ACCOUNT, {}, 22), (CLUSTER, AUTOPILOT | {"name": None}, 32), (BUCKET, {"location": "us"}, 55)],
)
def test_an_automatic_name_that_is_too_long_is_refused_and_not_cut(
    platform: Platform, type_token: str, inputs: dict[str, Any], longest: int
) -> None:
    assert platform.check(type_token, "a" * longest, inputs)[1] == []
    (problem,) = platform.check(type_token, "a" * (longest + 1), inputs)[1]
    assert "is not a valid name" in problem and "give the resource a shorter one" in problem


def test_a_given_name_stays_as_it_is(platform: Platform) -> None:
    checked, _ = platform.check(BUCKET, "b", {"location": "us", "name": "mine"})
    assert checked == {"location": "us", "name": "mine"}


def test_a_preview_knows_the_inputs_and_that_outputs_are_to_come_and_creates_nothing(
    platform: Platform,
) -> None:
    planned = platform.plan(CLUSTER, "c", AUTOPILOT)
    assert planned["name"] == "c"
    assert planned["endpoint"] == planned["masterAuth"] == UNKNOWN
    assert not list(platform.cloud.of_type(CLUSTER))


def test_a_preview_leaves_what_the_platform_adds_to_a_block_to_come(platform: Platform) -> None:
    block = {"dnsEndpointConfig": {"allowExternalTraffic": True}}
    inputs = {**AUTOPILOT, "controlPlaneEndpointsConfig": block}
    planned = platform.plan(CLUSTER, "c", inputs)["controlPlaneEndpointsConfig"]
    assert planned == {"dnsEndpointConfig": {"allowExternalTraffic": True, "endpoint": UNKNOWN}}
    _, outputs = platform.create(CLUSTER, "c", inputs)
    added = outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert added["allowExternalTraffic"] is True and added["endpoint"].endswith(".us-central1.gke.goog")


@pytest.mark.parametrize(("account", "known"), [("nodes-1", True), (UNKNOWN, False)])
def test_the_address_of_a_service_account_is_known_before_it_exists(
    platform: Platform, account: str, known: bool
) -> None:
    planned = platform.plan(ACCOUNT, "a", {"accountId": account})
    address = "nodes-1@p.iam.gserviceaccount.com"
    assert planned["email"] == (address if known else UNKNOWN)
    assert planned["member"] == (f"serviceAccount:{address}" if known else UNKNOWN)
    assert planned["name"] == UNKNOWN


# What must exist


def test_a_resource_needs_its_api() -> None:
    with pytest.raises(Rejected, match=r"compute\.googleapis\.com has not been used"):
        Platform().create(NETWORK, "n", {"name": "n"})


def test_nodes_that_stream_images_need_the_api_for_it(platform: Platform) -> None:
    platform.make_cluster(STANDARD)
    streaming = {**POOL, "nodeConfig": {"gcfsConfig": {"enabled": True}}}
    with pytest.raises(Rejected, match=r"containerfilesystem\.googleapis\.com has not been used"):
        platform.create(NODE_POOL, "pool", streaming)
    platform.enable("containerfilesystem")
    platform.create(NODE_POOL, "pool", streaming)


@pytest.mark.parametrize(
    ("type_token", "inputs"),
    [
        (SUBNETWORK, {"name": "s", "network": "missing", **REGIONAL}),
        ("gcp:compute/router:Router", {"name": "r", "network": "missing", "region": "us-central1"}),
        (NAT, {"name": "n", "router": "missing", "region": "us-central1"}),
        (NODE_POOL, {"name": "p", "cluster": "missing"}),
        (CLUSTER, {**AUTOPILOT, "network": "missing"}),
        (
            CLUSTER,
            {**AUTOPILOT, "clusterAutoscaling": {"autoProvisioningDefaults": {"serviceAccount": "missing"}}},
        ),
        (BUCKET_MEMBER, {"bucket": "missing", "role": "roles/viewer", "member": "allUsers"}),
    ],
)
def test_what_a_resource_refers_to_must_exist(
    platform: Platform, type_token: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(Rejected, match="'missing' was not found"):
        platform.create(type_token, "x", inputs)


def test_what_exists_already_is_refused_with_409_and_stays_as_it_is(platform: Platform) -> None:
    bucket_id, _ = platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    with pytest.raises(Rejected, match=r"^Error 409: .*'b' already exists$"):
        platform.create(BUCKET, "another", {"name": "b", "location": "eu"})
    (bucket,) = platform.cloud.of_type(BUCKET)
    assert (bucket.id, bucket.inputs["location"]) == (bucket_id, "us")


@pytest.mark.parametrize(
    ("type_token", "inputs"),
    [
        (SERVICE, {"service": "run.googleapis.com", "project": "p"}),
        (BUCKET_MEMBER, {"bucket": "b", "role": "roles/viewer", "member": "allUsers"}),
        (OBJECT, {"bucket": "b", "name": "o", "content": "text"}),
    ],
)
def test_what_google_takes_silently_is_made_a_second_time_and_exists_once(
    platform: Platform, type_token: str, inputs: dict[str, Any]
) -> None:
    platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    first, _ = platform.create(type_token, "mine", inputs)
    second, _ = platform.create(type_token, "another", inputs)
    assert first == second
    assert [item.name for item in platform.cloud.of_type(type_token) if item.id == first] == ["another"]


def test_references_by_id_link_and_name_all_count(platform: Platform) -> None:
    network_id, network = platform.create(NETWORK, "n", {"name": "n"})
    for number, reference in enumerate((network_id, network["selfLink"], "n")):
        platform.create(SUBNETWORK, "s", {"name": f"s{number}", "network": reference, **REGIONAL})


def test_a_service_account_must_exist_before_it_gets_a_role_unless_it_is_google_s_own(
    platform: Platform,
) -> None:
    def grant(email: str) -> None:
        member = {"project": "p", "role": "roles/x", "member": f"serviceAccount:{email}"}
        platform.create(PROJECT_MEMBER, "m", member)

    with pytest.raises(Rejected, match=r"Service account nobody@p\.iam\.gserviceaccount\.com does not exist"):
        grant("nobody@p.iam.gserviceaccount.com")
    grant("service-1@container-engine-robot.iam.gserviceaccount.com")
    grant("1-compute@developer.gserviceaccount.com")


@pytest.mark.parametrize(
    "cluster", [AUTOPILOT, {**STANDARD, "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"}}]
)
def test_pods_have_identities_from_the_first_cluster_that_has_them(
    platform: Platform, cluster: dict[str, Any]
) -> None:
    platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    platform.create(CLUSTER, "without", {**STANDARD, "name": "without"})
    pod = f"principal://{IDENTITIES}/subject/ns/ray/sa/x"
    member = {"bucket": "b", "role": "roles/storage.objectUser", "member": pod}
    with pytest.raises(Rejected, match=r"Identity Pool does not exist \(p\.svc\.id\.goog\)"):
        platform.create(BUCKET_MEMBER, "m", member)
    platform.create(CLUSTER, "c", cluster)
    platform.create(BUCKET_MEMBER, "m", member)


def test_a_cluster_s_ranges_are_those_of_its_subnetwork(platform: Platform) -> None:
    platform.create(NETWORK, "n", {"name": "n"})
    ranges = {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.4.0.0/16"}]}
    platform.create(SUBNETWORK, "s", {"name": "s", "network": "n", **REGIONAL, **ranges})
    cluster = {**AUTOPILOT, "network": "n", "subnetwork": "s"}
    with pytest.raises(Rejected, match="'pdos' not found"):
        platform.create(
            CLUSTER, "c", {**cluster, "ipAllocationPolicy": {"clusterSecondaryRangeName": "pdos"}}
        )
    platform.create(CLUSTER, "c", {**cluster, "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"}})


def test_the_subnets_of_a_network_do_not_overlap_in_any_region(platform: Platform) -> None:
    for network in ("n", "m"):
        platform.create(NETWORK, network, {"name": network})
    platform.create(SUBNETWORK, "s", {"name": "s", "network": "n", **REGIONAL})
    elsewhere = {"name": "t", "region": "europe-west4", "ipCidrRange": "10.0.8.0/22"}
    with pytest.raises(Rejected, match=r"10\.0\.8\.0/22 conflicts with existing subnetwork"):
        platform.create(SUBNETWORK, "t", {**elsewhere, "network": "n"})
    platform.create(SUBNETWORK, "t", {**elsewhere, "network": "m"})


def test_a_range_that_a_cluster_has_stays(platform: Platform) -> None:
    def ranges(pods: str) -> dict[str, Any]:
        pods_range = [{"rangeName": "pods", "ipCidrRange": pods}]
        return {"name": "s", "network": "n", **REGIONAL, "secondaryIpRanges": pods_range}

    platform.create(NETWORK, "n", {"name": "n"})
    subnet_id, _ = platform.create(SUBNETWORK, "s", ranges("10.4.0.0/16"))
    platform.update(SUBNETWORK, "s", subnet_id, ranges("10.5.0.0/16"))
    platform.create(CLUSTER, "c", {**AUTOPILOT, "network": "n", "subnetwork": "s"})
    with pytest.raises(Rejected, match=r"range pods of .* is in use by .*clusters/c"):
        platform.update(SUBNETWORK, "s", subnet_id, ranges("10.6.0.0/16"))


def test_an_update_is_not_refused_for_a_reference_that_stays(platform: Platform) -> None:
    account_id, account = platform.create(ACCOUNT, "a", {"accountId": "nodes-1"})
    node = {"nodeConfig": {"serviceAccount": account["email"]}}
    cluster_id, _ = platform.create(CLUSTER, "c", {**STANDARD, **node})
    platform.delete(ACCOUNT, "a", account_id)
    platform.update(CLUSTER, "c", cluster_id, {**STANDARD, **node, "enableShieldedNodes": True})
    with pytest.raises(Rejected, match="'other' was not found"):
        platform.update(CLUSTER, "c", cluster_id, {**STANDARD, "nodeConfig": {"serviceAccount": "other"}})


def test_an_autopilot_cluster_takes_no_node_pool(platform: Platform) -> None:
    platform.make_cluster(AUTOPILOT)
    with pytest.raises(Rejected, match="do not support mutating node pools"):
        platform.create(NODE_POOL, "pool", POOL)


def test_a_pool_names_its_cluster_s_place(platform: Platform) -> None:
    platform.make_cluster(STANDARD)
    with pytest.raises(Rejected, match=r"locations/us-central1-a/clusters/c; it is in us-central1"):
        platform.create(NODE_POOL, "pool", {**POOL, "location": "us-central1-a"})


def test_a_fixed_number_of_ports_need_not_be_a_power_of_two(platform: Platform) -> None:
    nat = {"name": "n", "router": "r", "region": "us-central1", "natIpAllocateOption": "AUTO_ONLY"}
    nat["sourceSubnetworkIpRangesToNat"] = "ALL_SUBNETWORKS_ALL_IP_RANGES"
    assert platform.check(NAT, "n", {**nat, "minPortsPerVm": 100})[1] == []


def test_on_a_release_channel_every_pool_is_upgraded(platform: Platform) -> None:
    platform.make_cluster({**STANDARD, "releaseChannel": {"channel": "REGULAR"}})
    with pytest.raises(Rejected, match="Auto_upgrade cannot be false when release_channel REGULAR"):
        platform.create(NODE_POOL, "pool", {**POOL, "management": {"autoUpgrade": False}})
    platform.create(NODE_POOL, "pool", {**POOL, "management": {"autoUpgrade": True}})


# Deletion


def test_what_is_in_use_cannot_be_deleted(platform: Platform) -> None:
    network_id, _ = platform.create(NETWORK, "n", {"name": "n"})
    subnet_id, _ = platform.create(SUBNETWORK, "s", {"name": "s", "network": network_id, **REGIONAL})
    cluster_id, _ = platform.create(CLUSTER, "c", {**AUTOPILOT, "network": "n", "subnetwork": subnet_id})
    for type_token, item_id in ((NETWORK, network_id), (SUBNETWORK, subnet_id)):
        with pytest.raises(Rejected, match="already being used"):
            platform.delete(type_token, "x", item_id)
    for type_token, item_id in ((CLUSTER, cluster_id), (SUBNETWORK, subnet_id), (NETWORK, network_id)):
        platform.delete(type_token, "x", item_id)


def test_deletion_protection_is_on_until_switched_off(platform: Platform) -> None:
    unstated = {key: value for key, value in AUTOPILOT.items() if key != "deletionProtection"}
    cluster_id, _ = platform.create(CLUSTER, "c", unstated)
    with pytest.raises(Rejected, match="deletion_protection"):
        platform.delete(CLUSTER, "c", cluster_id)


def test_a_deletion_policy_prevents_or_leaves_behind(platform: Platform) -> None:
    kept_id, _ = platform.create(BUCKET, "b", {"name": "kept", "location": "us", "deletionPolicy": "PREVENT"})
    left_id, _ = platform.create(BUCKET, "b", {"name": "left", "location": "us", "deletionPolicy": "ABANDON"})
    with pytest.raises(Rejected, match="PREVENT"):
        platform.delete(BUCKET, "b", kept_id)
    platform.delete(BUCKET, "b", left_id)
    assert platform.exists(BUCKET, "b", left_id)


def test_what_is_gone_reads_as_gone_and_can_be_deleted_again(platform: Platform) -> None:
    bucket_id, _ = platform.create(BUCKET, "b", {"name": "b", "location": "us"})
    assert platform.exists(BUCKET, "b", bucket_id)
    platform.delete(BUCKET, "b", bucket_id)
    platform.delete(BUCKET, "b", bucket_id)
    assert not platform.exists(BUCKET, "b", bucket_id)
