"""A project that has what every stack needs, planted in the server. Tests take something away."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from cloud.machines import MACHINES
from cloud.services.cloudbuild import BUILD
from cloud.services.kms import AGENTS, ENCRYPTER
from cloud.services.serviceusage import SERVICE
from operations.checks.hub import repositories
from operations.cost.machines import machines_of
from operations.plan import StackPlan
from stacks.settings.accounts import PROJECT_ROLES
from tests.operations.google_server import Call, GoogleServer, Page
from tests.operations.planned import PROJECT, planned

OWNER: Final = "jane"
COMPUTE: Final = "https://www.googleapis.com/compute/v1"
MANAGER: Final = "cloudresourcemanager.v3"
METRICS: Final = "serviceusage.services.consumerQuotaMetrics.list"
WHOAMI: Final = "huggingface/api/whoami-v2"
VIEWER: Final = "dataset-viewer"
# Service accounts that exist before the stack, by what runs as them.
ACCOUNTS: Final = {purpose: f"llm-{purpose}@{PROJECT}.iam.gserviceaccount.com" for purpose in PROJECT_ROLES}
KMS: Final = "cloudkms.v1"
PUBSUB: Final = "pubsub.v1"
KMS_KEY: Final = "projects/keys-project/locations/us-central1/keyRings/llm/cryptoKeys/stacks"
# Project of a Shared VPC, and Google's accounts in the stack's own project.
HOST: Final = "host-project"
GKE_AGENT: Final = "service-123456789012@container-engine-robot.iam.gserviceaccount.com"
APIS_AGENT: Final = "123456789012@cloudservices.gserviceaccount.com"
RUN_AGENT: Final = "service-123456789012@serverless-robot-prod.iam.gserviceaccount.com"
# The part of an image in which it says its platform and user.
CONFIG: Final = f"sha256:{'c' * 64}"
_GIB: Final = 2**30

REGIONAL_QUOTAS: Final[dict[str, tuple[float, float]]] = {
    "CPUS": (144.0, 8.0),
    "N2_CPUS": (72.0, 0.0),
    "SSD_TOTAL_GB": (2000.0, 100.0),
    "HDB_TOTAL_GB": (2000.0, 0.0),
    "NVIDIA_L4_GPUS": (8.0, 0.0),
    "PREEMPTIBLE_NVIDIA_L4_GPUS": (8.0, 0.0),
}
GLOBAL_QUOTAS: Final[dict[str, tuple[float, float]]] = {
    "NETWORKS": (15.0, 1.0),
    "SUBNETWORKS": (175.0, 40.0),
    "ROUTERS": (20.0, 0.0),
    "CPUS_ALL_REGIONS": (144.0, 8.0),
    "GPUS_ALL_REGIONS": (8.0, 0.0),
}


class GoodProject:
    """The server's answers for a project. A second call of a method replaces what the first one planted.

    Args:
        server: Answers for Google, the Hugging Face Hub and the registry.

    Attributes:
        region_name: The region of the plan, as the rest is.
        build_regions: Where its images are built.
        zones: Zones of the region: those that the plan names, and three more.
        a4_zone: The one where the reservation is, and A4 machines are.
        reservation_name: What it consumes.
        reserved_machine: The machine type in it.
    """

    def __init__(self, server: GoogleServer) -> None:
        self.server = server
        self.region_name = "us-central1"
        self.build_regions: set[str] = set()
        self.zones: set[str] = set()
        self.a4_zone = self.reservation_name = self.reserved_machine = ""

    def plan(self, stack: str, *settings: str) -> StackPlan:
        """The plan of a stack, for which the project, the Hub and the registry then have everything."""
        plan = planned(stack, *settings)
        machines = machines_of(plan)
        self.region_name = plan.region
        self.build_regions = {str(build.inputs["location"]) for build in plan.of_type(BUILD.type)}
        self.zones = {f"{plan.region}-{letter}" for letter in "abc"}
        self.zones.update(zone for group in machines for zone in group.zones)
        self.a4_zone = f"{plan.region}-b"
        reserved = [(group.reservation.name, group.type_name) for group in machines if group.reservation]
        self.reservation_name, self.reserved_machine = (*reserved, ("my-reservation", "a4-highgpu-8g"))[0]
        self.apis([str(service.inputs["service"]) for service in plan.of_type(SERVICE.type)])
        for usual in (
            self.project,
            self.permissions,
            self.places,
            self.reservation,
            self.quotas,
            self.subnet,
            self.host,
            self.accounts,
            self.builder,
            self.key,
            self.topic,
            self.served_run,
        ):
            usual()
        self.hub(plan)
        self.registry(plan)
        return plan

    def project(self, state: str = "ACTIVE", billing: bool = True) -> None:
        project = {"name": "projects/123456789012", "projectId": PROJECT, "state": state}
        self.server.plant(MANAGER, "cloudresourcemanager.projects.get", project, projectsId=PROJECT)
        info = {"projectId": PROJECT, "billingEnabled": billing}
        self.server.plant("cloudbilling.v1", "cloudbilling.projects.getBillingInfo", info)

    def apis(self, enabled: list[str]) -> None:
        listed = [{"config": {"name": name}, "state": "ENABLED"} for name in enabled]
        self.server.plant("serviceusage.v1", "serviceusage.services.list", {"services": listed})

    def permissions(self, *missing: str) -> None:
        def granted(_call: Call, body: dict[str, Any]) -> dict[str, Any]:
            return {"permissions": [name for name in body["permissions"] if name not in missing]}

        self.server.plant(MANAGER, "cloudresourcemanager.projects.testIamPermissions", granted)

    def places(self, a4_zone: str = "") -> None:
        """Every type of the table in every zone, but for A4, which few have."""
        self.region()
        with_a4 = a4_zone or self.a4_zone
        for collection, attribute in (("machineTypes", "name"), ("acceleratorTypes", "accelerator")):
            items = {}
            for zone in self.zones:
                there = (
                    machine
                    for machine in MACHINES.values()
                    if zone == with_a4 or not machine.name.startswith("a4-")
                )
                names = {getattr(machine, attribute) for machine in there} - {""}
                items[f"zones/{zone}"] = {collection: [{"name": name, "zone": zone} for name in names]}
            self.server.plant("compute.v1", f"compute.{collection}.aggregatedList", {"items": items})

    def region(self, status: str = "UP", **quotas: tuple[float, float]) -> None:
        region = {
            "name": self.region_name,
            "status": status,
            "zones": [f"{COMPUTE}/projects/{PROJECT}/zones/{zone}" for zone in self.zones],
            "quotas": _quotas({**REGIONAL_QUOTAS, **quotas}),
        }
        self.server.plant("compute.v1", "compute.regions.get", region, region=self.region_name)

    def reservation(
        self,
        project: str = PROJECT,
        machine: str = "",
        count: int = 4,
        used: int = 1,
        **fields: Any,
    ) -> None:
        reservation = {
            "name": self.reservation_name,
            "zone": f"{COMPUTE}/projects/{project}/zones/{self.a4_zone}",
            "status": "READY",
            "specificReservationRequired": True,
            "specificReservation": {
                "count": str(count),
                "inUseCount": str(used),
                "instanceProperties": {"machineType": machine or self.reserved_machine},
            },
            **fields,
        }
        scopes = {f"zones/{self.a4_zone}": {"reservations": [reservation]}, "zones/us-west1-a": {}}
        method = "compute.reservations.aggregatedList"
        self.server.plant("compute.v1", method, {"items": scopes}, project=project)

    def quotas(self, **limits: int) -> None:
        """Quotas that Service Usage has, and in capitals those of Compute Engine's own list for all regions.

        `limits` replace those of metrics, by name.
        """
        listed = {name: (float(limit), 0.0) for name, limit in limits.items() if name.isupper()}
        project = {"name": PROJECT, "quotas": _quotas({**GLOBAL_QUOTAS, **listed})}
        self.server.plant("compute.v1", "compute.projects.get", project)
        usual = {
            "preemptible_nvidia_b200_gpus": 16,
            "preemptible_tpu_v6e": 16,
            "cpu_allocation": 20_000,
            "mem_allocation": 60 * _GIB,
            "nvidia_l4_gpu_allocation_no_zonal_redundancy": 3,
            "concurrent_public_pool_build_cpus": 10,
            **limits,
        }
        families = [
            self._metric("compute.googleapis.com/gpus_per_gpu_family", 16, gpu_family="NVIDIA_B200"),
            self._metric("compute.googleapis.com/tpus_per_tpu_family", 16, tpu_family="CT6E"),
        ]
        for service in ("compute.googleapis.com", "run.googleapis.com", "cloudbuild.googleapis.com"):
            metrics = [self._metric(f"{service}/{name}", limit) for name, limit in usual.items()]
            answer = {"metrics": [*metrics, *families]}
            self.server.plant("serviceusage.v1beta1", METRICS, answer, servicesId=service)

    def subnet(self, nat: bool = True, network_name: str = "shared", **fields: Any) -> None:
        """The subnet `shared`, in whichever project it is asked for."""
        network = f"{COMPUTE}/projects/{PROJECT}/global/networks/{network_name}"
        subnet = {
            "name": "shared",
            "network": network,
            "ipCidrRange": "10.9.0.0/24",
            "privateIpGoogleAccess": True,
            "secondaryIpRanges": [
                {"rangeName": "pods", "ipCidrRange": "10.12.0.0/17"},
                {"rangeName": "services", "ipCidrRange": "10.13.0.0/22"},
            ],
            **fields,
        }
        self.server.plant("compute.v1", "compute.subnetworks.get", subnet, subnetwork="shared")
        router = {"name": "router", "network": network, "nats": [{"name": "nat"}] if nat else []}
        self.server.plant("compute.v1", "compute.routers.list", {"items": [router]}, region=self.region_name)

    def builder(self, email: str = "123456789012-compute@developer.gserviceaccount.com") -> None:
        """The account of builds without an account."""
        answer = {"serviceAccountEmail": f"projects/{PROJECT}/serviceAccounts/{email}"}
        method = "cloudbuild.projects.locations.getDefaultServiceAccount"
        self.server.plant("cloudbuild.v1", method, answer)

    def accounts(self, *missing: str, disabled: bool = False, **more: list[str]) -> None:
        """Service accounts that exist, as which everybody may act.

        Args:
            missing: Roles in the project that none of them has.
            disabled: Whether they are disabled.
            more: Members of further roles, by the name of the role.
        """
        self.server.plant("iam.v1", "iam.projects.serviceAccounts.get", {"disabled": disabled})
        granted = {"permissions": ["iam.serviceAccounts.actAs"]}
        self.server.plant("iam.v1", "iam.projects.serviceAccounts.testIamPermissions", granted)
        roles = sorted({role for needed in PROJECT_ROLES.values() for role in needed} - {*missing})
        members = [f"serviceAccount:{email}" for email in ACCOUNTS.values()]
        bindings = [{"role": role, "members": members} for role in roles]
        owner = {"role": "roles/owner", "members": ["user:jane@example.com"]}
        bindings += [owner, *({"role": f"roles/{role}", "members": names} for role, names in more.items())]
        policy = "cloudresourcemanager.projects.getIamPolicy"
        self.server.plant(MANAGER, policy, {"bindings": bindings}, projectsId=PROJECT)

    def key(self, *missing: str, state: str = "ENABLED", purpose: str = "ENCRYPT_DECRYPT") -> None:
        """A key that all of Google's accounts may use.

        Args:
            missing: Beginnings of the domains of accounts that may not.
            state: State of its primary version.
        """
        key = {"name": KMS_KEY, "purpose": purpose, "primary": {"state": state}}
        self.server.plant(KMS, "cloudkms.projects.locations.keyRings.cryptoKeys.get", key)
        agents = {agent.format(number="123456789012") for agents in AGENTS.values() for agent in agents}
        members = [
            f"serviceAccount:{agent}" for agent in agents if not agent.partition("@")[2].startswith(missing)
        ]
        policy = {"bindings": [{"role": ENCRYPTER, "members": sorted(members)}]}
        self.server.plant(KMS, "cloudkms.projects.locations.keyRings.cryptoKeys.getIamPolicy", policy)
        self.server.plant(KMS, "cloudkms.projects.locations.keyRings.getIamPolicy", {})
        policy = "cloudresourcemanager.projects.getIamPolicy"
        self.server.plant(MANAGER, policy, {}, projectsId="keys-project")

    def topic(self) -> None:
        """A topic of any name, on which nobody has a role."""
        self.server.plant(PUBSUB, "pubsub.projects.topics.get", {})
        self.server.plant(PUBSUB, "pubsub.projects.topics.getIamPolicy", {})

    def host(self, *missing: str, attached: bool = True, api: str = "ENABLED") -> None:
        """A host project with everything that GKE and Cloud Run need in its Shared VPC.

        Args:
            missing: Ends of roles that nobody has.
            attached: Whether the stack's project is attached to it.
            api: State of GKE's API in it.
        """
        host = {"name": HOST} if attached else {}
        self.server.plant("compute.v1", "compute.projects.getXpnHost", host, project=PROJECT)
        service = {"name": f"projects/{HOST}/services/container.googleapis.com", "state": api}
        self.server.plant("serviceusage.v1", "serviceusage.services.get", service)
        roles = {
            "roles/compute.networkUser": [GKE_AGENT, APIS_AGENT, RUN_AGENT],
            "roles/compute.networkViewer": [RUN_AGENT],
            "roles/container.hostServiceAgentUser": [GKE_AGENT],
        }
        bindings = {
            role: {"role": role, "members": [f"serviceAccount:{member}" for member in members]}
            for role, members in roles.items()
            if not role.endswith(missing or ("none",))
        }
        of_subnet = [binding for role, binding in bindings.items() if role.endswith("networkUser")]
        of_host = [binding for binding in bindings.values() if binding not in of_subnet]
        policy = "compute.subnetworks.getIamPolicy"
        self.server.plant("compute.v1", policy, {"bindings": of_subnet}, project=HOST, resource="shared")
        policy = "cloudresourcemanager.projects.getIamPolicy"
        self.server.plant(MANAGER, policy, {"bindings": of_host}, projectsId=HOST)

    def _metric(self, metric: str, limit: int, **family: str) -> dict[str, Any]:
        """A metric with a limit for the regions and family, others elsewhere, and some that do not count."""
        regions = sorted({self.region_name} | self.build_regions)
        dimensions = [{}, *({"region": region} for region in regions)] if family else [{}]
        buckets = [
            *({"effectiveLimit": "0", "dimensions": place} for place in dimensions),
            *(
                {"effectiveLimit": str(limit), "dimensions": {"region": region, **family}}
                for region in regions
            ),
            {"effectiveLimit": "999", "dimensions": {"region": "asia-south1"}},
        ]
        rate = {"unit": "1/min/{project}/{region}", "quotaBuckets": [{"effectiveLimit": "1"}]}
        zonal = {"unit": "1/{project}/{zone}", "quotaBuckets": [{"effectiveLimit": "0"}]}
        regional = {"unit": "1/{project}/{region}", "quotaBuckets": buckets}
        return {"metric": metric, "consumerQuotaLimits": [rate, zonal, regional]}

    def hub(self, plan: StackPlan) -> None:
        unknown = Page(code=401, content={"error": "Invalid user token."})
        self.server.plant_page(WHOAMI, Page(content={"name": OWNER}, rejected=unknown))
        for kind, name, _ in repositories(plan):
            self.server.plant_page(access(kind, name), Page(content={}))
            if kind == "model":
                self.server.plant_page(file_of(name, "tokenizer_config.json"), Page(content={}))
                self.server.plant_page(file_of(name, "chat_template.jinja"), Page(content="{{ messages }}"))
        data = getattr(plan.recipe, "data", None)
        if data and data.on_hub:
            self.rows(data, dict.fromkeys(data.columns, "words"))

    def rows(self, data: Any, *rows: dict[str, Any], cut: Mapping[int, str] = MappingProxyType({})) -> None:
        """The rows that the Hub's viewer shows of a recipe's data set, and a column that it cuts by row."""
        splits = [{"dataset": data.name, "config": "default", "split": data.split}]
        self.server.plant_page(f"{VIEWER}/splits", Page(content={"splits": splits}))
        entries = [
            {"row_idx": number, "row": row, "truncated_cells": [cut[number]] if number in cut else []}
            for number, row in enumerate(rows)
        ]
        self.server.plant_page(f"{VIEWER}/first-rows", Page(content={"rows": entries}))

    def served_run(self) -> None:
        """A finished run with a merged model of 2 GB, in the bucket that a rehearsal of `serve` names."""
        sizes = {"model.safetensors": 2_000_000_000}
        files = {"run.json": {"recipe": {}}, "COMPLETE.json": {"model": sizes}, "config.json": {}}
        items = [
            {"name": f"gemma-3-4b-sql-0a1b2c3d/model/{name}", "size": str(size)}
            for name, size in sizes.items()
        ]

        def content(call: Call, _body: Any) -> Any:
            return files[call.address["object"].rpartition("/")[2]]

        self.server.plant("storage.v1", "storage.objects.get", content, bucket="rehearsal-runs")
        self.server.plant("storage.v1", "storage.objects.list", {"items": items}, bucket="rehearsal-runs")

    def registry(self, plan: StackPlan) -> None:
        """Docker Hub, which gives anybody a token, and Artifact Registry, with the plan's images."""
        where = f"{self.server.address}/registry/token"
        realm = f'Bearer realm="{where}",service="registry.docker.io",scope="pull"'
        self.server.plant_page("registry/token", Page(content={"token": "anybody"}))
        rejected = Page(code=401, headers={"WWW-Authenticate": realm})
        for uri in re.findall(r"[\w.-]+\.[a-z]+/[\w./-]+@sha256:[0-9a-f]{64}", str(plan.resources)):
            self.server.plant_page(manifest(uri), Page(content=image_manifest(), rejected=rejected))
            self.server.plant_page(blob(uri), Page(content=image_config(), rejected=rejected))


def image_manifest() -> dict[str, Any]:
    """The manifest of an image for one platform."""
    return {"config": {"digest": CONFIG}}


def image_config(architecture: str = "amd64", user: str = "1000") -> dict[str, Any]:
    """What an image says about itself."""
    return {"os": "linux", "architecture": architecture, "config": {"User": user}}


def blob(uri: str, digest: str = CONFIG) -> str:
    """Address at which its registry has a part of an image."""
    return f"{manifest(uri).partition('/manifests/')[0]}/blobs/{digest}"


def manifest(uri: str) -> str:
    """Address at which its registry has an image."""
    path = uri.replace("docker.io/", "registry-1.docker.io/").replace("/", "/v2/", 1)
    return f"registry/{path.replace('@', '/manifests/')}"


def access(kind: str, name: str) -> str:
    """Address at which the Hub says whether a model or data set may be downloaded."""
    return f"huggingface/api/{kind}s/{name}/auth-check"


def file_of(model: str, file: str) -> str:
    """Address at which the Hub has a file of a model."""
    return f"huggingface/{model}/resolve/main/{file}"


def _quotas(amounts: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    return [{"metric": name, "limit": limit, "usage": usage} for name, (limit, usage) in amounts.items()]
