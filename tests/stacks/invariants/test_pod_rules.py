"""Every stack: what its pods ask for and may do, and who may reach them."""

import re
from typing import Any

from cloud.quantity import quantity
from engine.plan import Plan
from tests import plans

# Pods


def test_every_pod_has_requests_and_limits(plan: Plan) -> None:
    for name, container in plans.containers(plan):
        resources = container["resources"]
        assert resources["requests"] == resources["limits"], name
        assert {"cpu", "memory", "ephemeral-storage"} <= set(resources["requests"]), name


def test_every_image_is_by_digest(standing: Plan) -> None:
    images = re.findall(r'"image": "([^"]*)"', plans.text(standing))
    assert images
    for image in images:
        assert re.search(r"@sha256:[0-9a-f]{64}$", image)


def test_nothing_runs_privileged_or_as_root(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), name
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume], name
    for name, container in plans.containers(plan):
        context = container["securityContext"]
        assert context == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }, name


def test_a_pod_writes_only_into_volumes_and_its_home_is_one(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        empty = {volume["name"] for volume in spec["volumes"] if "emptyDir" in volume}
        for container in spec["containers"]:
            homes = [variable["value"] for variable in container["env"] if variable["name"] == "HOME"]
            assert homes in (["/tmp"], ["/tmp/home"]), name
            mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            assert mounted.get("/tmp") in empty, name


def test_the_home_of_a_training_is_apart_from_what_comes_from_its_bucket(plan: Plan) -> None:
    # Only this project's trainers write what their bucket has into /tmp.
    trainings = plans.trainings(plan, (":Job", ":RayJob")) if plans.runs(plan) else ()
    for resource, spec in plans.pods(plan):
        for container in spec["containers"] if resource in trainings else ():
            homes = [variable["value"] for variable in container["env"] if variable["name"] == "HOME"]
            assert homes == ["/tmp/home"], resource.name


def test_every_scratch_volume_is_smaller_than_the_request_of_its_pod(plan: Plan) -> None:
    for name, spec in plans.pod_specs(plan):
        requests = spec["containers"][0]["resources"]["requests"]
        for volume in spec.get("volumes", []):
            if "emptyDir" in volume:
                resource = "memory" if volume["emptyDir"].get("medium") == "Memory" else "ephemeral-storage"
                size, request = quantity(volume["emptyDir"]["sizeLimit"]), quantity(requests[resource])
                assert (size or 0) < (request or 0), name


def test_no_upgrade_of_a_node_or_of_the_minor_version_interrupts_a_run(plan: Plan) -> None:
    for cluster in plans.clusters(plan):
        (exclusion,) = cluster.inputs["maintenancePolicy"]["maintenanceExclusions"]
        assert exclusion["exclusionOptions"] == {
            "scope": "NO_MINOR_OR_NODE_UPGRADES",
            "endTimeBehavior": "UNTIL_END_OF_SUPPORT",
        }


def test_the_autoscaler_evicts_no_pod_of_a_training_and_may_evict_a_server(plan: Plan) -> None:
    for resource in plan.resources:
        if resource.type.startswith("kubernetes:"):
            marks = list(plans.values(resource.inputs, "cluster-autoscaler.kubernetes.io/safe-to-evict"))
            is_spot = any(plans.values(resource.inputs, "cloud.google.com/gke-spot"))
            # Autopilot refuses the mark for pods of a class, which has a threshold in its place.
            has_class = any(plans.values(resource.inputs, "cloud.google.com/compute-class"))
            trains = resource.type.endswith((":Job", ":RayJob")) and not is_spot and not has_class
            pods = [owner for owner, _ in plans.pods(plan) if owner == resource]
            assert marks == ["false" for _ in pods if trains], resource.name


def test_an_upgrade_needs_no_spare_accelerator_machine(plan: Plan) -> None:
    for pool in plans.node_pools(plan):
        spare = 0 if plans.is_accelerated(pool) else 1
        assert pool.inputs["upgradeSettings"] == {"maxSurge": spare, "maxUnavailable": 1 - spare}


def test_every_node_of_a_pool_boots_signed_software_only_and_its_boots_are_compared(plan: Plan) -> None:
    """Autopilot's nodes do so by themselves."""
    for pool in plans.node_pools(plan):
        shielded = pool.inputs["nodeConfig"]["shieldedInstanceConfig"]
        assert shielded == {"enableSecureBoot": True, "enableIntegrityMonitoring": True}, pool.name


# The network


def test_a_pod_is_reached_only_from_its_own_namespace_and_by_peers_that_a_policy_names(
    standing: Plan,
) -> None:
    for resource, _ in plans.pods(standing):
        namespace = resource.inputs["metadata"]["namespace"]
        specs = [
            policy.inputs["spec"]
            for policy in plans.of_type(standing, ":NetworkPolicy")
            if policy.inputs["metadata"]["namespace"] == namespace
        ]
        closed = [spec for spec in specs if not spec["podSelector"] and "Ingress" in spec["policyTypes"]]
        assert closed, f"{namespace} lets everybody in"
        for spec in specs:
            for rule in spec.get("ingress", ()):
                check_peers(rule, namespace)


def test_a_pod_connects_outside_its_namespace_only_as_the_policy_for_egress_says(standing: Plan) -> None:
    for resource, _ in plans.pods(standing):
        namespace = resource.inputs["metadata"]["namespace"]
        specs = [
            policy.inputs["spec"]
            for policy in plans.of_type(standing, ":NetworkPolicy")
            if policy.inputs["metadata"]["namespace"] == namespace
        ]
        for_egress = [spec for spec in specs if "Egress" in spec["policyTypes"]]
        assert for_egress
        for spec in for_egress:
            assert not spec["podSelector"], "the policy holds for every pod"
            for rule in spec["egress"]:
                inside = rule["to"] == [{"podSelector": {}}]
                assert inside or {port["port"] for port in rule["ports"]} <= {53, 80, 443, 987, 988, 8080}


def test_pods_reach_every_port_of_the_metadata_server(standing: Plan) -> None:
    rules = [
        rule
        for policy in plans.of_type(standing, ":NetworkPolicy")
        for rule in policy.inputs["spec"].get("egress", ())
    ]
    ports: dict[str, set[int]] = {}
    for rule in rules:
        for peer in rule.get("to", ()):
            for port in rule.get("ports", ()):
                ports.setdefault(peer.get("ipBlock", {}).get("cidr", ""), set()).add(port["port"])
    if ports:
        assert ports["169.254.169.254/32"] == {53, 80, 8080}
        assert ports["169.254.169.252/32"] == {987, 988}


def check_peers(rule: dict[str, Any], namespace: str) -> None:
    """Fails if a rule for ingress lets everybody in."""
    assert rule["from"], f"{namespace} lets everybody in"
    for peer in rule["from"]:
        assert "ipBlock" not in peer
        assert "podSelector" in peer or (peer["namespaceSelector"] and rule["ports"])


def test_a_standard_cluster_enforces_policies_and_has_the_features_that_pods_need(plan: Plan) -> None:
    for cluster in plans.clusters(plan):
        inputs = cluster.inputs
        assert inputs["deletionProtection"] is False
        if not inputs.get("enableAutopilot"):
            assert inputs["datapathProvider"] == "ADVANCED_DATAPATH"
            assert inputs["privateClusterConfig"]["enablePrivateNodes"] is True
            assert inputs["workloadIdentityConfig"]["workloadPool"] == "rehearsal-project.svc.id.goog"
            assert inputs["addonsConfig"]["gcsFuseCsiDriverConfig"] == {"enabled": True}
            assert inputs["removeDefaultNodePool"] is True
