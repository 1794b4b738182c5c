"""What a stack costs: quantities of the plan, and no figure that nobody gave."""

import json
import re
from collections import defaultdict
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloud.prices import ListPrice, list_prices
from engine.project import known_stacks
from operations.cost import prices
from operations.cost.command import listed_estimate, reserved
from operations.cost.prices import Prices, catalog_prices, file_prices, or_list_prices
from operations.cost.quantities import by_use, quantities
from operations.errors import OperationError
from operations.google.clients import Clients
from stacks.settings.cluster import Cluster
from tests.neutral_stacks import NEUTRAL, NEUTRAL_RUN
from tests.operations.conftest import Command, CommandResult
from tests.operations.google_server import CUT, EXHAUSTED, HALF, REFUSED, UNAVAILABLE, Fault, GoogleServer
from tests.operations.planned import planned, planned_once
from tests.operations.samples import sku
from tests.plans import mostly_slow

COMPUTE_ENGINE = "6F81-5844-456A"
CORE = "G2 Instance Core running in Americas"
SKUS = "cloudbilling.services.skus.list"
# A scenario on Autopilot whose nodes are reserved.
on_autopilot = pytest.mark.parametrize("stack", ["a4-ray"])


def plant(server: GoogleServer, *skus: dict[str, Any], service: str = COMPUTE_ENGINE) -> None:
    server.plant("cloudbilling.v1", SKUS, {"skus": list(skus)}, servicesId=service)


@pytest.fixture
def catalog(clients: Clients) -> Prices:
    return catalog_prices(clients, "us-central1")


def amounts(stack: str) -> dict[str, tuple[float, float, float]]:
    """By key, in an hour: at most, in a run, when nobody does anything."""
    totals: defaultdict[str, tuple[float, float, float]] = defaultdict(lambda: (0, 0, 0))
    for item in quantities(planned(stack)):
        most, run, kept = totals[item.key]
        totals[item.key] = most + item.most, run + item.run, kept + item.kept
    return totals


# Quantities


@on_autopilot
def test_a_job_with_a_cluster_of_its_own_costs_gpus_while_it_runs_and_a_cluster_afterwards(
    stack: str,
) -> None:
    hourly = amounts(stack)
    assert hourly["nvidia-b200.reservation"] == (16, 16, 0)
    assert hourly["cluster.autopilot"] == (1, 1, 1)
    # Head and submitter.
    assert hourly["autopilot.cpu"] == (9, 9, 0)
    assert "a4.cpu.reservation" not in hourly


def test_the_nodes_of_a_pool_cost_whether_they_are_used_or_not() -> None:
    hourly = amounts(NEUTRAL)
    assert hourly["nvidia-l4.onDemand"] == (2, 2, 2)
    assert hourly["g2.cpu.onDemand"] == (24, 24, 24)
    assert hourly["g2.memory.onDemand"] == (96, 96, 96)
    assert hourly["e2.cpu.onDemand"] == (8, 8, 8)
    assert hourly["disk.balanced"][2] * 730 == pytest.approx(500)
    assert hourly["nat.gateway"] == (4, 4, 4)
    assert "autopilot.cpu" not in hourly


def test_cloud_run_costs_nothing_when_nobody_asks() -> None:
    hourly = amounts(NEUTRAL_RUN)
    assert hourly["run.job.cpu"] == (8, 8, 0)
    assert hourly["run.service.memory"] == (16, 0, 0)
    assert hourly["run.gpu.nvidia-l4"] == (2, 1, 0)


@pytest.mark.parametrize("stack", mostly_slow(known_stacks(), quick=["dev", "a4-accelerate"]))
def test_every_quantity_has_an_entry_in_the_table_of_prices(stack: str) -> None:
    keys = {item.key for item in [*quantities(planned(stack)), *by_use(planned(stack))]}
    assert keys <= set(prices.known())


# Prices


def test_the_price_is_that_of_the_region_and_of_the_kind_of_capacity(
    google: GoogleServer, catalog: Prices
) -> None:
    plant(
        google,
        sku("Nvidia L4 GPU running in Americas", 560_000_000, "us-central1", "us-east1"),
        sku("Nvidia L4 GPU running in Netherlands", 610_000_000, "europe-west4"),
        sku("Nvidia L4 GPU attached to Spot Preemptible VMs running in Americas", 220_000_000),
        sku("Commitment v1: Nvidia L4 GPU running in Americas for 1 Year", 350_000_000),
        sku("Nvidia L4 GPU Virtual Workstation running in Americas", 760_000_000),
    )
    assert catalog("nvidia-l4.onDemand", "GPU-hour").dollars == pytest.approx(0.56)
    assert catalog("nvidia-l4.spot", "GPU-hour").dollars == pytest.approx(0.22)


def test_the_catalogs_units_are_turned_into_ours(google: GoogleServer, catalog: Prices) -> None:
    run, gke, network = "152E-C115-5142", "CCD8-9BF1-090E", "E505-1604-58F8"
    plant(google, sku("Jobs CPU in us-central1", 18_000, unit="s", free=True), service=run)
    plant(google, sku("Autopilot Pod mCPU Requests (us-central1)", 44_500), service=gke)
    plant(google, sku("Networking Cloud Nat Gateway Uptime", 1_400_000, "global"), service=network)
    assert catalog("run.job.cpu", "vCPU-hour").dollars == pytest.approx(0.0648)
    assert catalog("autopilot.cpu", "vCPU-hour").dollars == pytest.approx(0.0445)
    assert catalog("nat.gateway", "hour").dollars == pytest.approx(0.0014)


@pytest.mark.parametrize(
    ("skus", "why"),
    [
        ([sku(CORE, 1, "europe-west4")], "no SKU matches"),
        ([sku(CORE, 1, unit="mo")], "no SKU matches"),
        ([sku(CORE, nanos) for nanos in (1, 2)], "2 prices match"),
        ([{"description": CORE, "serviceRegions": ["us-central1"]}], "no SKU"),
    ],
    ids=["elsewhere", "unit", "two", "half"],
)
def test_without_exactly_one_price_there_is_none(
    skus: list[dict[str, Any]], why: str, google: GoogleServer, catalog: Prices
) -> None:
    plant(google, *skus)
    hourly = catalog("g2.cpu.onDemand", "vCPU-hour")
    assert hourly.dollars is None
    assert why in hourly.source


def test_a_reservations_price_is_not_in_the_catalog(google: GoogleServer, catalog: Prices) -> None:
    assert "contract" in catalog("nvidia-b200.reservation", "GPU-hour").source
    assert not google.calls


def test_a_price_file_is_read_and_nothing_else_is_guessed(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("nvidia-b200.reservation: 10\n")
    assert file_prices(file)("nvidia-b200.reservation", "GPU-hour").dollars == 10
    assert file_prices(file)("disk.balanced", "GiB-month").dollars is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nvidia-b300: 1\n", "unknown key nvidia-b300"),
        ("disk.balanced: cheap\n", "'cheap' is no price"),
        ("disk.balanced: -1\n", "-1 is no price"),
        ("- 1\n", "not a mapping"),
        ("a: [\n", "while parsing"),
        (None, "No such file"),
    ],
)
def test_a_price_file_that_is_none_is_rejected(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "prices.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(OperationError, match=message) as rejected:
        file_prices(file)
    assert "\n" not in str(rejected.value)


def test_a_list_price_stands_in_for_what_the_catalog_does_not_have_and_for_nothing_else(
    google: GoogleServer, catalog: Prices
) -> None:
    plant(google, sku("Nvidia L4 GPU running in Americas", 990_000_000))
    price = or_list_prices(catalog)
    assert price("nvidia-l4.onDemand", "GPU-hour") == catalog("nvidia-l4.onDemand", "GPU-hour")
    core = price("g2.cpu.onDemand", "vCPU-hour")
    assert core.dollars == 0.024988
    assert core.source.startswith("list price of 2026-11-25 in us-central1: ")


@pytest.mark.parametrize(("key", "price"), list_prices().items())
def test_a_list_price_has_a_known_key_a_day_and_a_source(key: str, price: ListPrice) -> None:
    assert key in prices.known()
    assert price.dollars > 0 and price.source
    assert date(2026, 1, 1) < price.day <= date(2026, 11, 29)
    assert price.region == "all" or re.fullmatch(r"[a-z]+-[a-z]+\d", price.region)


@on_autopilot
def test_no_price_of_a_reservation_is_made_up(stack: str) -> None:
    hourly = listed_estimate(planned(stack), 1)
    (line,) = [line for line in hourly.lines if line.key == "nvidia-b200.reservation"]
    assert line.price is None
    assert reserved(hourly) == pytest.approx(16 * 16.11)


# The command


@pytest.fixture
def run(google: GoogleServer, command: Command) -> Command:
    def run(stack: str, *words: str) -> CommandResult:
        with planned_once():
            return command("cost", "--stack", stack, "--endpoint", google.address, *words)

    return run


@on_autopilot
def test_the_command_adds_up_hour_run_and_forgotten_month(stack: str, run: Command, tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("nvidia-b200.reservation: 10\ncluster.autopilot: 0.1\nautopilot.cpu: 0.05\n")
    ran = run(stack, "--prices", str(file), "--hours", "0.5", "--json")
    shown = json.loads(ran.out)
    totals = {name: total["dollars"] for name, total in shown["totals"].items()}
    assert not ran.status
    assert totals["per_hour"] == pytest.approx(160 + 0.1 + 9 * 0.05)
    assert totals["per_run"] == pytest.approx(totals["per_hour"] / 2)
    assert totals["per_month"] == pytest.approx(0.1 * 730)
    assert shown["totals"]["per_hour"]["lines_without_price"] > 0


@pytest.mark.parametrize("fault", [REFUSED, EXHAUSTED, UNAVAILABLE, HALF, CUT, Fault(body=b'{"skus": 1}')])
def test_without_the_catalog_list_prices_are_shown_and_the_status_says_so(
    fault: Fault, google: GoogleServer, run: Command
) -> None:
    google.fail("cloudbilling.v1", SKUS, fault)
    ran = run(NEUTRAL_RUN)
    assert ran.status == 2
    text = " ".join(ran.out.split())
    assert "The Cloud Billing Catalog gave no prices: cloudbilling.services.skus.list" in text
    assert "Google's public list prices of 2026-08-03 to 2026-11-25, in us-central1" in text
    assert "not those of your account" in text
    assert "0.67212*" in text
    assert "Traceback" not in ran.err


def test_hours_that_are_none_are_rejected(run: Command) -> None:
    ran = run(NEUTRAL_RUN, "--hours", "0")
    assert ran.status == 2
    assert "--hours 0.0: give a number above 0" in ran.err


@on_autopilot
def test_the_reservation_is_said_to_be_billed_used_or_not(
    stack: str, google: GoogleServer, run: Command
) -> None:
    google.fail("cloudbilling.v1", SKUS, REFUSED)
    text = " ".join(run(stack).out.split())
    assert "Google bills a reservation by its contract, used or not." in text
    assert "257.76 per hour at the on-demand list price" in text


def test_a_stack_of_which_nothing_ends_has_no_run_to_pay_for(
    google: GoogleServer, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "per run of 2 h" in run(NEUTRAL, "--hours", "2").out
    assert "its training has ended" in run(NEUTRAL).out
    server = SimpleNamespace(Settings=Cluster)
    monkeypatch.setattr("stacks.scenario_modules", lambda: {NEUTRAL: server})
    ran = run(NEUTRAL)
    assert "per hour" in ran.out and "a month forgotten" in ran.out
    for words in ("per run", "training", "maxRunHours", "--hours"):
        assert words not in ran.out
    assert "A month forgotten: the stack is up, nobody sends requests." in ran.out
    refused = run(NEUTRAL, "--hours", "2")
    assert (refused.status, refused.out) == (2, "")
    assert "--hours 2: stack neutral trains nothing; leave it out" in refused.err
