"""A project and a cluster whose answers confirm each assumption that is measured, and what contradicts it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from cloud import records
from cloud.accelerators import H100, L4, V6E
from cloud.machines import MACHINES
from cloud.services import cloudbuild, cloudrun, iam
from cloud.services.container import CLUSTER
from engine.plan import Planned
from operations.plan import StackPlan
from operations.state import Resource, State
from tests.neutral_stacks import NEUTRAL
from tests.operations.google_server import GoogleServer
from tests.operations.kubernetes_server import KubernetesServer
from tests.operations.planned import planned
from tests.operations.project import PROJECT, REGION
from tests.operations.samples import sell
from tests.operations.status.samples import condition

Object = dict[str, Any]

_RAY_JOB: Final = Planned(
    type="kubernetes:ray.io/v1:RayJob",
    name="ray-job",
    urn="ray-job",
    parent="",
    op="create",
    inputs={"kind": "RayJob", "spec": {"entrypoint": "python", "shutdownAfterJobFinishes": True}},
    dependencies=(),
)
_HERE: Final = f"projects/{PROJECT}/locations/{REGION}"
_SERVICES: Final = "run.projects.locations.services"
STATE: Final = State(
    resources=(
        Resource(type=CLUSTER.type, id=f"{_HERE}/clusters/c", outputs={}),
        Resource(type=cloudrun.SERVICE.type, id=f"{_HERE}/services/s", outputs={}),
        Resource(type=cloudbuild.BUILD.type, id="b-1", outputs={"location": REGION}),
        Resource(type="kubernetes:core/v1:Namespace", id="llm", outputs={}),
    )
)


def plan_with_ray() -> StackPlan:
    """The plan of a stack that has a RayJob too."""
    plan = planned(NEUTRAL)
    return replace(plan, resources=(*plan.resources, _RAY_JOB))


class Answers:
    """The answers of the two servers. A test changes them before they are asked."""

    def __init__(self) -> None:
        self.cilium = _pod(
            "anetd", labels={"k8s-app": "cilium"}, image="gke.gcr.io/cilium/cilium:v1.15.10-gke.9"
        )
        self.agent = _pod("agent", labels={"k8s-app": "konnectivity-agent"})
        self.api = _named(
            "v1beta2.visibility.kueue.x-k8s.io", status={"conditions": [condition("Available", True)]}
        )
        self.ray_job: Object = _definition("RayJob", _RAY_JOB)
        self.gpus, self.tpus = _node("a4-highgpu-8g"), _node("ct6e-standard-4t")
        self.server = _pod("vllm", created="10:01", image="vllm")
        self.build = {
            "name": f"{_HERE}/builds/b-1",
            "status": "SUCCESS",
            "startTime": "2026-11-22T10:00:00.123456789Z",
            "finishTime": "2026-11-22T10:11:00Z",
        }
        self.healthy = {
            "type": "ContainerHealthy",
            "state": "CONDITION_SUCCEEDED",
            "lastTransitionTime": "2026-11-22T10:03:20Z",
        }
        self.zones = {
            machine.model.name: [zone for zones in machine.model.zones.values() for zone in zones]
            for machine in MACHINES.values()
            if machine.model
        }
        self.disks = 400.0
        self.unsold = ""
        self.permissions = sorted(
            {name for record in records.every().values() for name in record.permissions} | {*iam.ACT_AS}
        )

    def answer(self, google: GoogleServer, cluster: KubernetesServer) -> None:
        """Lets the servers answer so."""
        cluster.plant("/api/v1/namespaces/kube-system/pods", self.cilium, self.agent)
        cluster.plant("/api/v1/namespaces/llm/pods", self.server)
        cluster.plant("/api/v1/nodes", self.gpus, self.tpus)
        cluster.plant("/apis/apiregistration.k8s.io/v1/apiservices", self.api)
        cluster.plant("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", self.ray_job)
        google.plant("cloudbuild.v1", "cloudbuild.projects.locations.builds.get", self.build, buildsId="b-1")
        google.plant(
            "run.v2", f"{_SERVICES}.get", {"latestCreatedRevision": f"{_HERE}/services/s/revisions/r"}
        )
        revision = {
            "createTime": "2026-11-22T10:00:00Z",
            "conditions": [self.healthy],
            "containers": [{"startupProbe": {"failureThreshold": 90, "periodSeconds": 10}}],
        }
        google.plant("run.v2", f"{_SERVICES}.revisions.get", revision, revisionsId="r")
        of_gpus = {name: zones for name, zones in self.zones.items() if name != V6E.name}
        for collection, offered in (
            ("acceleratorTypes", of_gpus),
            ("machineTypes", {"ct6e-standard-4t": self.zones[V6E.name]}),
        ):
            google.plant("compute.v1", f"compute.{collection}.aggregatedList", _offered(collection, offered))
        quotas = [{"metric": "HDB_TOTAL_GB", "limit": 2000.0, "usage": self.disks}]
        google.plant("compute.v1", "compute.regions.get", {"name": REGION, "quotas": quotas})
        sell(google, planned(NEUTRAL), self.unsold)
        google.plant("iam.v1", "iam.permissions.queryTestablePermissions", self._page)

    def _page(self, _call: object, body: Object) -> Object:
        """Half of the permissions, and where the others are."""
        assert body["fullResourceName"] == f"//cloudresourcemanager.googleapis.com/projects/{PROJECT}"
        half = len(self.permissions) // 2
        second = body.get("pageToken") == "more"
        names = self.permissions[half:] if second else self.permissions[:half]
        return {
            "permissions": [{"name": permission} for permission in names],
            **({} if second else {"nextPageToken": "more"}),
        }


CONTRADICTIONS: Final[dict[str, Callable[[Answers], object]]] = {
    "build-region": lambda it: it.build.update(status="FAILURE"),
    "cilium-end-port": lambda it: it.cilium["spec"]["containers"][0].update(
        image="gke.gcr.io/cilium/cilium:v1.16.0"
    ),
    "gke-node-allocatable": lambda it: it.gpus["status"]["allocatable"].update(memory="3600Gi"),
    "gpu-zones": lambda it: it.zones[H100.name].remove("us-central1-a"),
    "konnectivity-host-network": lambda it: it.agent["spec"].update(hostNetwork=True),
    "kuberay-version": lambda it: _fields(it.ray_job).pop("entrypoint"),
    "kueue-visibility-api": lambda it: it.api["status"].update(conditions=[condition("Available", False)]),
    "l4-zones": lambda it: it.zones[L4.name].remove("us-central1-a"),
    "minutes-build": lambda it: it.build.update(finishTime="2026-11-22T11:00:00Z"),
    "minutes-node": lambda it: it.server["metadata"].update(creationTimestamp="2026-11-22T09:40:00Z"),
    "permission-names": lambda it: it.permissions.remove("container.clusters.create"),
    "sku-descriptions": lambda it: setattr(it, "unsold", "g2.cpu.onDemand"),
    "start-in-cluster": lambda it: it.server["status"]["containerStatuses"][0].update(restartCount=1),
    "start-on-cloud-run": lambda it: it.healthy.update(
        state="CONDITION_FAILED", message="no answer on /health"
    ),
    "tpu-node-size": lambda it: it.tpus["status"]["allocatable"].update(cpu="60"),
    "v6e-disk-quota": lambda it: setattr(it, "disks", 0.0),
    "v6e-zones": lambda it: it.zones[V6E.name].append("us-central2-b"),
}


def _offered(collection: str, zones_by_name: Mapping[str, list[str]]) -> Object:
    """A list of types in the zones that have them."""
    items: Object = {}
    for name, zones in zones_by_name.items():
        for zone in zones:
            scope = items.setdefault(f"zones/{zone}", {collection: []})
            scope[collection].append({"name": name, "zone": zone})
    return {"items": items}


def _named(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name, "creationTimestamp": "2026-11-22T10:04:00Z"}, **more}


def _pod(name: str, labels: Object | None = None, image: str = "i", created: str = "10:00") -> Object:
    """A pod that got a node at 10:05 and was ready at 10:15."""
    conditions = [
        condition("PodScheduled", True, since="2026-11-22T10:05:00Z"),
        condition("Ready", True, since="2026-11-22T10:15:00Z"),
    ]
    container = {
        "name": "main",
        "image": image,
        "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},
    }
    return {
        "metadata": {"name": name, "labels": labels, "creationTimestamp": f"2026-11-22T{created}:00Z"},
        "spec": {"nodeName": "a4-highgpu-8g", "containers": [container]},
        "status": {"conditions": conditions, "containerStatuses": [{"name": "main", "restartCount": 0}]},
    }


def _node(machine: str) -> Object:
    """A node that has what is computed for its machine, and 3 % of memory less."""
    type_ = MACHINES[machine]
    cpus, gib = type_.allocatable_cpus, int(type_.allocatable_gib * 0.97)
    node = _named(machine, status={"allocatable": {"cpu": f"{cpus * 1000:.0f}m", "memory": f"{gib}Gi"}})
    node["metadata"]["labels"] = {"node.kubernetes.io/instance-type": machine}
    return node


def _definition(kind: str, *used: Any) -> Object:
    """The definition of a kind that has the fields which are used."""
    fields = {key: {} for resource in used for key in resource.inputs["spec"]}
    schema = {"openAPIV3Schema": {"properties": {"spec": {"properties": fields}}}}
    return _named(kind, spec={"names": {"kind": kind}, "versions": [{"name": "v1", "schema": schema}]})


def _fields(definition: Object) -> Object:
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
