"""A subnet that exists before the stack: preflight tells what it, its network and its host project lack."""

import pytest

from operations.findings import Level
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.changes import Change, assert_told, failing, nothing
from tests.operations.conftest import Check
from tests.operations.good_project import APIS_AGENT, GKE_AGENT, HOST, RUN_AGENT, GoodProject
from tests.operations.google_server import NOT_FOUND, REFUSED

RANGES = "network=shared podsRange=pods servicesRange=services"
IN_HOST = f"subnet=projects/{HOST}/regions/us-central1/subnetworks/shared"
OK, PROBLEM, UNKNOWN = Level.FINE, Level.PROBLEM, Level.UNKNOWN
CHANGES: dict[str, list[tuple[Change, Level, str]]] = {
    f"{NEUTRAL_RUN} subnet=shared": [
        (nothing, OK, "has room and a way out"),
        (lambda it: it.subnet(privateIpGoogleAccess=False), PROBLEM, "Private Google Access"),
        (lambda it: it.subnet(ipCidrRange="10.9.0.0/28"), PROBLEM, "is a /28"),
        (lambda it: it.subnet(ipCidrRange="10.9"), UNKNOWN, "not understood: '10.9' does not appear to be"),
        (lambda it: it.subnet(nat=False), PROBLEM, "no Cloud NAT"),
        (failing("compute.v1", "compute.subnetworks.get", NOT_FOUND), PROBLEM, "no subnet shared"),
    ],
    f"{NEUTRAL_RUN} {IN_HOST}": [
        (nothing, OK, "has room and a way out"),
        (lambda it: it.host("networkUser"), PROBLEM, f"{RUN_AGENT} has no roles/compute.networkUser on sub"),
        (lambda it: it.host("networkViewer"), PROBLEM, "networkViewer on project host-project"),
    ],
    f"{NEUTRAL} subnet=shared {RANGES}": [
        (nothing, OK, "has room and a way out"),
        (lambda it: it.subnet(ipCidrRange="10.9.0.0/28"), OK, "has room and a way out"),
        (lambda it: it.subnet(nat=False), PROBLEM, "pods do not reach the Hugging Face Hub"),
        (
            lambda it: it.subnet(network_name="other"),
            PROBLEM,
            "is in network other, not in shared\npulumi config set network other --stack neutral",
        ),
        (
            lambda it: it.subnet(secondaryIpRanges=[{"rangeName": "pods", "ipCidrRange": "10.12.0.0/17"}]),
            PROBLEM,
            "no secondary range services; it has pods\npulumi config set servicesRange NAME --stack neutral",
        ),
        (failing("compute.v1", "compute.subnetworks.get", REFUSED), PROBLEM, "you may not look at subnet sh"),
    ],
    f"{NEUTRAL} nodes=3 subnet=shared {RANGES}": [
        (nothing, OK, "has room and a way out"),
        (
            lambda it: it.subnet(
                secondaryIpRanges=[
                    {"rangeName": "pods", "ipCidrRange": "10.12.0.0/22"},
                    {"rangeName": "services", "ipCidrRange": "10.13.0.0/22"},
                ]
            ),
            PROBLEM,
            "(10.12.0.0/22) has room for the pods of 4 nodes, and the stack has 5",
        ),
    ],
    f"{NEUTRAL} {IN_HOST} {RANGES}": [
        (nothing, OK, "has room and a way out"),
        (
            lambda it: it.host(attached=False),
            PROBLEM,
            "shared-vpc associated-projects add my-project --host-",
        ),
        (
            lambda it: it.host(api="DISABLED"),
            PROBLEM,
            "gcloud services enable container.googleapis.com --pro",
        ),
        (
            lambda it: it.host("hostServiceAgentUser"),
            PROBLEM,
            f"gcloud projects add-iam-policy-binding host-project --member serviceAccount:{GKE_AGENT} --role "
            "roles/container.hostServiceAgentUser",
        ),
        (
            failing("compute.v1", "compute.subnetworks.getIamPolicy", REFUSED),
            UNKNOWN,
            f"you may not see whether {APIS_AGENT} has roles/compute.networkUser on subnet shared",
        ),
        (
            failing("serviceusage.v1", "serviceusage.services.get", REFUSED),
            UNKNOWN,
            "you may not see whether co",
        ),
    ],
}


@pytest.mark.parametrize(
    ("stack", "change", "level", "words"),
    [(stack, *item) for stack, several in CHANGES.items() for item in several],
)
def test_what_the_network_lacks_is_told_with_its_remedy(
    stack: str, change: Change, level: Level, words: str, good: GoodProject, check: Check
) -> None:
    assert_told(stack, "network", change, level, words, good, check)
