"""The samples in docs/operations.md: what the commands print against the tests' server.

python -m tests.operations.samples             runs them and rewrites the page
python -m tests.operations.samples preflight   prints one
"""

import io
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, Final

from cloud.serviceusage import SERVICE
from operations.__main__ import main
from operations.prices import known
from operations.quantities import by_use, quantities
from tests.operations import good_project
from tests.operations.google_server import GoogleServer, Page
from tests.operations.planned import planned, planned_once

PAGE: Final = Path(__file__).parents[2] / "docs" / "operations.md"
# A block of the page that is what a command prints, by the command's name.
_BLOCK: Final = re.compile(r"(<!-- printed by: (?P<name>\w+) -->\n```text\n).*?(```\n)", re.DOTALL)
# The catalog's unit for each of ours, for SKUs that cost a dollar.
_UNITS: Final = {"GiB-hour": "GiBy.h", "GiB-month": "GiBy.mo", "GiB": "GiBy"}


def _preflight(server: GoogleServer) -> list[str]:
    """A project in which much is missing for a4-ray."""
    plan = planned("a4-ray")
    good_project.plant(server, plan)
    enabled = [str(each.inputs["service"]) for each in plan.of_type(SERVICE.type)]
    good_project.plant_apis(server, [name for name in enabled if not name.startswith("cloudbuild")])
    good_project.plant_permissions(server, "container.clusters.create", "container.clusters.delete")
    specific = {
        "count": "4",
        "inUseCount": "3",
        "instanceProperties": {"machineType": "a4-highgpu-8g"},
    }
    good_project.plant_reservation(server, specificReservation=specific)
    gated = Page(code=403, content={}, headers={"X-Error-Code": "GatedRepo"})
    server.plant_page("huggingface/api/models/google/gemma-3-4b-it/auth-check", gated)
    return ["preflight", "--stack", "a4-ray"]


def _cost(server: GoogleServer) -> list[str]:
    """A catalog in which everything of l4-kueue costs a dollar, but for what it does not have."""
    plan = planned("l4-kueue")
    skus: dict[str, list[dict[str, Any]]] = {}
    for each in [*quantities(plan), *by_use(plan)]:
        described = known()[each.key]
        if described and each.key != "e2.memory.onDemand":
            description = re.sub(r"\.\*$|\(.*\)\?$", "", described["description"]).replace("\\", "")
            skus.setdefault(described["service"], []).append(_sku(description, each.unit))
    for service, listed in skus.items():
        server.plant(
            "cloudbilling.v1", "cloudbilling.services.skus.list", {"skus": listed}, servicesId=service
        )
    return ["cost", "--stack", "l4-kueue", "--hours", "2"]


SAMPLES: Final[dict[str, Callable[[GoogleServer], list[str]]]] = {"preflight": _preflight, "cost": _cost}


def _sku(description: str, unit: str) -> dict[str, Any]:
    price = {"currencyCode": "USD", "units": "1"}
    expression = {"usageUnit": _UNITS.get(unit, "h"), "tieredRates": [{"unitPrice": price}]}
    return {
        "skuId": "0000-0000-0000",
        "description": description,
        "serviceRegions": [good_project.REGION],
        "pricingInfo": [{"pricingExpression": expression}],
    }


def printed(name: str) -> str:
    """What a sample's command prints."""
    output = io.StringIO()
    with GoogleServer() as server, _token(), planned_once(), redirect_stdout(output):
        main([*SAMPLES[name](server), "--endpoint", server.address])
    return "".join(f"{line.rstrip()}\n" for line in output.getvalue().splitlines())


def shown(page: str) -> dict[str, str]:
    """The samples in the page, by name."""
    return {
        block["name"]: block[0].removeprefix(block[1]).removesuffix(block[3])
        for block in _BLOCK.finditer(page)
    }


@contextmanager
def _token() -> Generator[None]:
    before = os.environ.get("HF_TOKEN")
    os.environ["HF_TOKEN"] = "hf_planted_in_a_test"
    try:
        yield
    finally:
        os.environ.pop("HF_TOKEN")
        if before is not None:
            os.environ["HF_TOKEN"] = before


if __name__ == "__main__" and sys.argv[1:]:
    print("".join(printed(name) for name in sys.argv[1:]), end="")
elif __name__ == "__main__":
    PAGE.write_text(_BLOCK.sub(lambda block: block[1] + printed(block["name"]) + block[3], PAGE.read_text()))
    print(PAGE)
