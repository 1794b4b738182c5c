"""A project in which every stack finds what it needs, planted in the server; tests take something away."""

from typing import Any, Final

from cloud.machines import MACHINES
from cloud.serviceusage import SERVICE
from operations.checks import hub
from operations.plan import StackPlan
from stacks import pins
from tests.operations.google_server import Call, GoogleServer, Page
from tests.operations.planned import IMAGE, PROJECT, RESERVATION

REGION: Final = "us-central1"
ZONES: Final = ("us-central1-a", "us-central1-b", "us-central1-c")
# Where the reservation is, and A4 machines are.
A4_ZONE: Final = "us-central1-b"
OWNER: Final = "jane"
COMPUTE: Final = "https://www.googleapis.com/compute/v1"
_GIB: Final = 2**30

REGIONAL_QUOTAS: Final[dict[str, tuple[float, float]]] = {
    "CPUS": (72.0, 8.0),
    "SSD_TOTAL_GB": (2000.0, 100.0),
    "NVIDIA_L4_GPUS": (8.0, 0.0),
    "PREEMPTIBLE_NVIDIA_L4_GPUS": (8.0, 0.0),
}
GLOBAL_QUOTAS: Final[dict[str, tuple[float, float]]] = {
    "NETWORKS": (15.0, 1.0),
    "SUBNETWORKS": (175.0, 40.0),
    "ROUTERS": (20.0, 0.0),
    "GPUS_ALL_REGIONS": (8.0, 0.0),
}


def plant(server: GoogleServer, plan: StackPlan) -> None:
    """Plants the project, the Hub and the registry as `plan` needs them."""
    plant_project(server)
    plant_apis(server, [str(each.inputs["service"]) for each in plan.of_type(SERVICE.type)])
    plant_permissions(server)
    plant_places(server)
    plant_reservation(server)
    plant_quotas(server)
    plant_subnet(server)
    plant_hub(server, plan)
    plant_registry(server)


def plant_project(server: GoogleServer, state: str = "ACTIVE", billing: bool = True) -> None:
    project = {"name": "projects/123456789012", "projectId": PROJECT, "state": state}
    server.plant("cloudresourcemanager.v3", "cloudresourcemanager.projects.get", project, projectsId=PROJECT)
    info = {"projectId": PROJECT, "billingEnabled": billing}
    server.plant("cloudbilling.v1", "cloudbilling.projects.getBillingInfo", info)


def plant_apis(server: GoogleServer, enabled: list[str]) -> None:
    listed = [{"config": {"name": name}, "state": "ENABLED"} for name in enabled]
    server.plant("serviceusage.v1", "serviceusage.services.list", {"services": listed})


def plant_permissions(server: GoogleServer, *refused: str) -> None:
    def granted(_call: Call, body: dict[str, Any]) -> dict[str, Any]:
        return {"permissions": [each for each in body["permissions"] if each not in refused]}

    server.plant("cloudresourcemanager.v3", "cloudresourcemanager.projects.testIamPermissions", granted)


def plant_places(server: GoogleServer, status: str = "UP", a4_zone: str = A4_ZONE) -> None:
    plant_region(server, status)
    server.plant("compute.v1", "compute.machineTypes.aggregatedList", _types("machineTypes", a4_zone))
    server.plant("compute.v1", "compute.acceleratorTypes.aggregatedList", _types("acceleratorTypes", a4_zone))


def plant_region(
    server: GoogleServer, status: str = "UP", quotas: dict[str, tuple[float, float]] = REGIONAL_QUOTAS
) -> None:
    region = {
        "name": REGION,
        "status": status,
        "zones": [f"{COMPUTE}/projects/{PROJECT}/zones/{zone}" for zone in ZONES],
        "quotas": _quotas(quotas),
    }
    server.plant("compute.v1", "compute.regions.get", region, region=REGION)


def plant_reservation(server: GoogleServer, project: str = PROJECT, **changes: Any) -> None:
    """A reservation of 4 A4 machines, one of them in use; `changes` replace its fields."""
    reservation = {
        "name": RESERVATION,
        "zone": f"{COMPUTE}/projects/{project}/zones/{A4_ZONE}",
        "status": "READY",
        "specificReservationRequired": True,
        "specificReservation": {
            "count": "4",
            "inUseCount": "1",
            "instanceProperties": {"machineType": "a4-highgpu-8g"},
        },
        **changes,
    }
    scopes = {f"zones/{A4_ZONE}": {"reservations": [reservation]}, "zones/us-central1-a": {}}
    server.plant("compute.v1", "compute.reservations.aggregatedList", {"items": scopes}, project=project)


def plant_quotas(server: GoogleServer, **limits: int) -> None:
    """Quotas that Service Usage has; `limits` replace those of metrics, by name."""
    server.plant("compute.v1", "compute.projects.get", {"name": PROJECT, "quotas": _quotas(GLOBAL_QUOTAS)})
    usual = {
        "preemptible_nvidia_b200_gpus": 16,
        "preemptible_tpu_v6e": 16,
        "cpu_allocation": 20_000,
        "mem_allocation": 60 * _GIB,
        "nvidia_l4_gpu_allocation_no_zonal_redundancy": 3,
        **limits,
    }
    families = [_family("gpus_per_gpu_family", "NVIDIA_B200", 16), _family("tpus_per_tpu_family", "CT6E", 16)]
    for service in ("compute", "run"):
        metrics = [_metric(f"{service}.googleapis.com/{name}", limit) for name, limit in usual.items()]
        server.plant(
            "serviceusage.v1beta1",
            "serviceusage.services.consumerQuotaMetrics.list",
            {"metrics": [*metrics, *families]},
            servicesId=f"{service}.googleapis.com",
        )


def plant_subnet(server: GoogleServer, nat: bool = True, **changes: Any) -> None:
    network = f"{COMPUTE}/projects/{PROJECT}/global/networks/shared"
    subnet = {
        "name": "shared",
        "network": network,
        "ipCidrRange": "10.9.0.0/24",
        "privateIpGoogleAccess": True,
        **changes,
    }
    server.plant("compute.v1", "compute.subnetworks.get", subnet, subnetwork="shared")
    router = {"name": "router", "network": network, "nats": [{"name": "nat"}] if nat else []}
    server.plant("compute.v1", "compute.routers.list", {"items": [router]}, region=REGION)


def plant_hub(server: GoogleServer, plan: StackPlan) -> None:
    server.plant_page(
        "huggingface/api/whoami-v2",
        Page(content={"name": OWNER}, rejected=Page(code=401, content={"error": "Invalid user token."})),
    )
    for kind, name in hub.repositories(plan):
        server.plant_page(f"huggingface/api/{kind}s/{name}/auth-check", Page(content={}))


def plant_registry(server: GoogleServer) -> None:
    """Docker Hub with the image that serves: anybody gets a token for it first."""
    realm = f'Bearer realm="{server.address}/registry/token",service="registry.docker.io",scope="pull"'
    server.plant_page("registry/token", Page(content={"token": "anybody"}))
    server.plant_page(manifest(), Page(rejected=Page(code=401, headers={"WWW-Authenticate": realm})))
    plant_image(server, IMAGE)


def plant_image(server: GoogleServer, uri: str) -> None:
    """An image in Artifact Registry."""
    _, project, repository, image = uri.split("/", 3)
    method = "artifactregistry.projects.locations.repositories.dockerImages.get"
    server.plant(
        "artifactregistry.v1",
        method,
        {"uri": uri},
        projectsId=project,
        repositoriesId=repository,
        dockerImagesId=image,
    )


def manifest() -> str:
    """Address of the serving image's manifest."""
    path, digest = pins.VLLM_IMAGE.removeprefix("docker.io/").split("@")
    return f"registry/registry-1.docker.io/v2/{path}/manifests/{digest}"


def _types(collection: str, a4_zone: str) -> dict[str, Any]:
    """Every type of the table in every zone, but for A4, which few have."""
    types = MACHINES.values()
    names = {each.accelerator if collection == "acceleratorTypes" else each.name: each for each in types}
    items = {
        f"zones/{zone}": {
            collection: [
                {"name": name}
                for name, each in names.items()
                if name and (zone == a4_zone or not each.name.startswith("a4-"))
            ]
        }
        for zone in ZONES
    }
    return {"items": items}


def _quotas(amounts: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    return [{"metric": name, "limit": limit, "usage": usage} for name, (limit, usage) in amounts.items()]


def _metric(metric: str, limit: int) -> dict[str, Any]:
    """A metric with a limit for the region, another elsewhere, and some that do not count here."""
    regional = {
        "unit": "1/{project}/{region}",
        "quotaBuckets": [
            {"effectiveLimit": "0"},
            {"effectiveLimit": str(limit), "dimensions": {"region": REGION}},
            {"effectiveLimit": "999", "dimensions": {"region": "europe-west4"}},
        ],
    }
    rate = {"unit": "1/min/{project}/{region}", "quotaBuckets": [{"effectiveLimit": "1"}]}
    zonal = {"unit": "1/{project}/{zone}", "quotaBuckets": [{"effectiveLimit": "0"}]}
    return {"metric": metric, "consumerQuotaLimits": [rate, zonal, regional]}


def _family(name: str, family: str, limit: int) -> dict[str, Any]:
    dimension = "gpu_family" if name.startswith("gpus") else "tpu_family"
    buckets = [
        {"effectiveLimit": "0"},
        {"effectiveLimit": "0", "dimensions": {"region": REGION}},
        {"effectiveLimit": str(limit), "dimensions": {"region": REGION, dimension: family}},
    ]
    limits = [{"unit": "1/{project}/{region}", "quotaBuckets": buckets}]
    return {"metric": f"compute.googleapis.com/{name}", "consumerQuotaLimits": limits}
