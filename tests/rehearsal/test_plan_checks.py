"""What a first plan as a whole reveals."""

from typing import Any

from rehearsal.plan import Plan, Planned
from rehearsal.plan_checks import problems

SERVICE = "gcp:projects/service:Service"
NETWORK = "gcp:compute/network:Network"
NAMESPACE = "kubernetes:core/v1:Namespace"
POD = "kubernetes:core/v1:Pod"
SECRET = "kubernetes:core/v1:Secret"

COMPUTE = {"service": "compute.googleapis.com"}


def planned(type_token: str, name: str, inputs: dict[str, Any], *waits_for: str) -> Planned:
    return Planned(
        type=type_token, name=name, urn=name, parent="", op="create", inputs=inputs, dependencies=waits_for
    )


def plan(*resources: Planned) -> Plan:
    return Plan(resources=resources, changes={})


def kube(kind: str, name: str, namespace: str | None = None, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **fields}


RAY = planned(NAMESPACE, "ns", kube("Namespace", "ray"))
USES_SECRET = {
    "containers": [
        {"name": "main", "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}]}
    ]
}


def test_a_resource_waits_for_its_api_directly_or_through_others() -> None:
    api = planned(SERVICE, "compute", COMPUTE)
    network = planned(NETWORK, "net", {"name": "net"}, "compute")
    subnet = planned(
        "gcp:compute/subnetwork:Subnetwork", "sub", {"ipCidrRange": "10.0.0.0/20", "network": "n"}, "net"
    )
    assert problems(plan(api, network, subnet)) == []


def test_a_resource_that_does_not_wait_for_its_api_is_found() -> None:
    found = problems(plan(planned(SERVICE, "compute", COMPUTE), planned(NETWORK, "net", {"name": "net"})))
    assert found == ["net: is not made to wait for compute.googleapis.com: add depends_on compute"]


def test_an_api_that_nothing_enables_is_found() -> None:
    found = problems(plan(planned(NETWORK, "net", {"name": "net"})))
    assert found == ["net: nothing in the plan enables compute.googleapis.com"]


def test_an_object_waits_for_its_namespace() -> None:
    secret = kube("Secret", "token", "ray", stringData={"t": "x"})
    assert problems(plan(RAY, planned(SECRET, "token", secret, "ns"))) == []
    (found,) = problems(plan(RAY, planned(SECRET, "token", secret)))
    assert "not made to wait for namespace ray" in found


def test_a_namespace_that_nothing_makes_is_found() -> None:
    (found,) = problems(plan(planned(SECRET, "token", kube("Secret", "token", "raz"))))
    assert "nothing in the plan makes namespace raz" in found


def test_objects_are_checked_although_the_engine_does_not_ask_the_provider_yet() -> None:
    (found,) = problems(plan(RAY, planned(SECRET, "token", kube("Secret", "token", "ray", dta={}), "ns")))
    assert "'dta' was unexpected" in found


def test_secret_values_that_a_plan_does_not_show_are_not_held_against_it() -> None:
    hidden = kube("Secret", "token", "ray", stringData="[secret]")
    assert problems(plan(RAY, planned(SECRET, "token", hidden, "ns"))) == []


def test_what_a_pod_names_must_be_made_by_the_plan() -> None:
    pod = planned(POD, "pod", kube("Pod", "pod", "ray", spec=USES_SECRET), "ns")
    (found,) = problems(plan(RAY, pod))
    assert "names Secret token, which nothing in the plan makes in namespace ray" in found
    token = planned(SECRET, "token", kube("Secret", "token", "ray"), "ns")
    assert problems(plan(RAY, pod, token)) == []


def test_a_pod_s_service_account_must_be_made_by_the_plan() -> None:
    spec = {"containers": [{"name": "main"}], "serviceAccountName": "trainer"}
    (found,) = problems(plan(RAY, planned(POD, "pod", kube("Pod", "pod", "ray", spec=spec), "ns")))
    assert "names ServiceAccount trainer" in found


def test_pods_that_the_namespace_would_not_let_in_are_found() -> None:
    home = kube("Namespace", "ray")
    home["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    pod = planned(POD, "pod", kube("Pod", "pod", "ray", spec={"containers": [{"name": "main"}]}), "ns")
    found = problems(plan(planned(NAMESPACE, "ns", home), pod))
    assert any("violates PodSecurity restricted: container main: runAsNonRoot" in line for line in found)


def test_a_restricted_ray_job_needs_a_submitter_of_its_own() -> None:
    home = kube("Namespace", "ray")
    home["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "restricted"}
    spec = {"entrypoint": "x", "clusterSelector": {"a": "b"}}
    job = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "j", "namespace": "ray"},
        "spec": spec,
    }
    (found,) = problems(
        plan(planned(NAMESPACE, "ns", home), planned("kubernetes:ray.io/v1:RayJob", "j", job, "ns"))
    )
    assert "the default submitter pod is not restricted" in found
