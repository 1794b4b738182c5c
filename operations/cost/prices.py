"""Prices in US dollars, from Google's Cloud Billing Catalog, a file, or Google's public lists."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from cloud import records
from cloud.prices import ListPrice, list_prices
from operations.errors import OperationError
from operations.google.clients import Clients

# The catalog's units, and how many of them are in one of our units.
_HOURS: Final = {"h": 1, "s": 3600}
_UNITS: Final = {
    "GiB-hour": {"GiBy.h": 1, "GiBy.s": 3600},
    "GiB-month": {"GiBy.mo": 1},
    "GiB": {"GiBy": 1},
}


class Price(NamedTuple):
    """A price.

    Attributes:
        dollars: Dollars for one unit, None if unknown.
        source: The SKU, file or list that it is from, or why there is no price.
        listed: The row of list_prices.yaml that it is from.
    """

    dollars: float | None
    source: str
    listed: ListPrice | None = None


# A service of the catalog, and a regular expression for an SKU's description.
Sku = tuple[str, str]
# Returns the price of a unit for a key and the unit.
Prices = Callable[[str, str], Price]


def file_prices(file: Path) -> Prices:
    """The prices of a user's YAML file with dollars by key. Other keys have no price.

    Raises:
        OperationError: When the file cannot be read, has an unknown key or a value that is no price.
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

    The function raises OperationError if the catalog does not answer.
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
        rates = {rate: sku for sku in skus if (rate := _rate(sku, unit)) is not None}
        if len(rates) != 1:
            why = f"{len(rates)} prices match" if rates else "no SKU matches"
            return Price(None, f"{why} in the catalog for {region}")
        ((rate, sku),) = rates.items()
        return Price(rate, f"SKU {sku.get('skuId', '')} {sku['description']}")

    return price


def or_list_prices(prices: Prices) -> Prices:
    """Prices that fall back to the list price."""

    def price(key: str, unit: str) -> Price:
        first = prices(key, unit)
        listed = list_prices().get(key)
        if first.dollars is not None or not listed:
            return first
        return Price(
            listed.dollars, f"list price of {listed.day} in {listed.region}: {listed.source}", listed
        )

    return price


def in_place_of_a_reservation(key: str) -> ListPrice | None:
    """The on-demand list price for the key of a reservation's machines, None for another key."""
    accelerator, _, kind = key.rpartition(".")
    return list_prices().get(f"{accelerator}.onDemand") if kind == "reservation" else None


@cache
def known() -> dict[str, Sku | None]:
    """SKUs by key, from prices.yaml and the records of cloud/. None for what the catalog cannot have."""
    services = yaml.safe_load(Path(__file__).with_name("prices.yaml").read_text())
    skus = {key: (service, text) for service, listed in services.items() for key, text in listed.items()}
    spot = (key.removesuffix(".spot") for key in skus if key.endswith(".spot"))
    billed = (item for record in records.every().values() for item in record.billed)
    own = {item.key: (item.service, item.description) for item in billed}
    return {**skus, **{f"{key}.reservation": None for key in spot}, **own}


def _rate(sku: Mapping[str, Any], unit: str) -> float | None:
    """Dollars for one of our units at the dearest tier, because the first tier may be free."""
    latest = (sku.get("pricingInfo") or [{}])[-1].get("pricingExpression", {})
    factor = _UNITS.get(unit, _HOURS).get(latest.get("usageUnit", ""))
    rates = [_dollars(tier.get("unitPrice", {})) for tier in latest.get("tieredRates", ())]
    # The catalog prices Autopilot's CPUs by the thousandth, and only the description says so.
    parts = 1000 if "mCPU" in sku["description"] else 1
    return max(rates) * factor * parts if factor and rates else None


def _dollars(money: Mapping[str, Any]) -> float:
    return int(money.get("units", 0)) + int(money.get("nanos", 0)) / 1e9
