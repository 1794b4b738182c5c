"""Prices in US dollars: of Google's Cloud Billing Catalog, of a file, or of its public lists."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from cloud import records
from operations.clients import Clients
from operations.errors import OperationError

# The catalog's units, and how many of them are in an hour or a month of ours.
_HOURS: Final = {"h": 1, "s": 3600}
_UNITS: Final = {
    "GiB-hour": {"GiBy.h": 1, "GiBy.s": 3600},
    "GiB-month": {"GiBy.mo": 1},
    "GiB": {"GiBy": 1},
}


class Price(NamedTuple):
    """What something costs.

    Attributes:
        dollars: For one of its units; None when it is not known.
        source: Which SKU, file or list says so, or why nobody does.
        listed: Where it is of the file of list prices.
    """

    dollars: float | None
    source: str
    listed: "ListPrice | None" = None


@dataclass(frozen=True, kw_only=True)
class ListPrice:
    """A price that Google shows to everybody; the head of list_prices.yaml says what its fields hold."""

    dollars: float
    region: str
    day: date
    source: str


# A service of the catalog, and a regular expression for the description of what it sells.
Sku = tuple[str, str]
# The price of one unit, given key and unit.
Prices = Callable[[str, str], Price]


def file_prices(file: Path) -> Prices:
    """Prices that somebody wrote down: a YAML file with dollars by key, and for nothing else a guess.

    Raises:
        OperationError: When it cannot be read, names an unknown key or has something else than a price.
    """
    try:
        prices = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise OperationError(f"--prices {file}: {' '.join(str(error).split())}") from None
    if not isinstance(prices, dict):
        raise OperationError(f"--prices {file}: not a mapping of keys to dollars")
    for key, dollars in prices.items():
        if key not in known():
            raise OperationError(f"--prices {file}: unknown key {key}; known: {', '.join(known())}")
        if isinstance(dollars, bool) or not isinstance(dollars, int | float) or dollars < 0:
            raise OperationError(f"--prices {file}: {key}: {dollars!r} is no price")
    return lambda key, _unit: Price(
        prices.get(key), file.name if key in prices else f"{file.name} has no {key}"
    )


def catalog_prices(clients: Clients, region: str) -> Prices:
    """Google's list prices for a region, without free amounts and discounts.

    They raise OperationError when the catalog does not answer.
    """

    @cache
    def sold(service: str) -> list[Mapping[str, Any]]:
        parent = f"services/{service}"
        skus = clients.every(
            "cloudbilling.v1", "services.skus.list", parent=parent, currencyCode="USD", pageSize=5000
        )
        if not skus:
            raise OperationError(f"the catalog has nothing of {parent}")
        return [sku for sku in skus if {region, "global"} & {*sku.get("serviceRegions", ())}]

    def price(key: str, unit: str) -> Price:
        """The price of the SKU that `known` describes, if there is exactly one."""
        described = known().get(key)
        if not described:
            return Price(None, "in the reservation's contract: give it in a price file")
        service, description = described
        pattern = re.compile(description, re.IGNORECASE)
        skus = [sku for sku in sold(service) if pattern.fullmatch(sku.get("description", ""))]
        found = {rate: sku for sku in skus if (rate := _rate(sku, unit)) is not None}
        if len(found) != 1:
            why = f"{len(found)} prices match" if found else "no SKU matches"
            return Price(None, f"{why} in the catalog for {region}")
        ((rate, sku),) = found.items()
        return Price(rate, f"SKU {sku.get('skuId', '')} {sku['description']}")

    return price


@cache
def list_prices() -> dict[str, ListPrice]:
    """The list prices that have a source, by key."""
    rows = yaml.safe_load(Path(__file__).with_name("list_prices.yaml").read_text())
    return {key: ListPrice(**row) for key, row in rows.items()}


def or_list_prices(prices: Prices) -> Prices:
    """Prices, and where there is none the list price."""

    def price(key: str, unit: str) -> Price:
        found = prices(key, unit)
        listed = list_prices().get(key)
        if found.dollars is not None or not listed:
            return found
        return Price(
            listed.dollars, f"list price of {listed.day} in {listed.region}: {listed.source}", listed
        )

    return price


def in_place_of_a_reservation(key: str) -> ListPrice | None:
    """For the key of what a reservation pays, the list price on demand; None for any other key."""
    accelerator, _, kind = key.rpartition(".")
    return list_prices().get(f"{accelerator}.onDemand") if kind == "reservation" else None


@cache
def known() -> dict[str, Sku | None]:
    """By key, what is in prices.yaml and in cloud/'s records; None for what the catalog cannot have."""
    services = yaml.safe_load(Path(__file__).with_name("prices.yaml").read_text())
    skus = {key: (service, text) for service, listed in services.items() for key, text in listed.items()}
    spot = (key.removesuffix(".spot") for key in skus if key.endswith(".spot"))
    billed = (each for record in records.every().values() for each in record.billed)
    own = {each.key: (each.service, each.description) for each in billed}
    return {**skus, **{f"{key}.reservation": None for key in spot}, **own}


def _rate(sku: Mapping[str, Any], unit: str) -> float | None:
    """Dollars for one of our units at the dearest tier: the first one may be a free amount."""
    latest = (sku.get("pricingInfo") or [{}])[-1].get("pricingExpression", {})
    factor = _UNITS.get(unit, _HOURS).get(latest.get("usageUnit", ""))
    rates = [_dollars(tier.get("unitPrice", {})) for tier in latest.get("tieredRates", ())]
    # The catalog prices Autopilot's CPUs by the thousandth, and says so in the description alone.
    parts = 1000 if "mCPU" in sku["description"] else 1
    return max(rates) * factor * parts if factor and rates else None


def _dollars(money: Mapping[str, Any]) -> float:
    return int(money.get("units", 0)) + int(money.get("nanos", 0)) / 1e9
