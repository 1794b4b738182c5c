"""Prices in US dollars: of Google's Cloud Billing Catalog, or of a file."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from cloud import records
from operations.clients import Clients
from operations.errors import OperationError

# The catalog's units, and how many of them are in an hour or a month of ours.
_UNITS: Final = {
    "GPU-hour": {"h": 1, "s": 3600},
    "chip-hour": {"h": 1, "s": 3600},
    "vCPU-hour": {"h": 1, "s": 3600},
    "hour": {"h": 1, "s": 3600},
    "GiB-hour": {"GiBy.h": 1, "GiBy.s": 3600},
    "GiB-month": {"GiBy.mo": 1},
    "GiB": {"GiBy": 1},
}


@dataclass(frozen=True, kw_only=True)
class Price:
    """What something costs.

    Args:
        dollars: For one of its units; None when it is not known.
        source: Which SKU or file says so, or why nobody does.
    """

    dollars: float | None
    source: str


class Prices(Protocol):
    """Where prices come from."""

    def of(self, key: str, unit: str) -> Price:
        """The price of one unit."""
        ...


class NoPrices:
    """Nobody could be asked.

    Args:
        reason: Why not.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def of(self, key: str, unit: str) -> Price:
        """None."""
        return Price(dollars=None, source=self._reason)


class FilePrices:
    """Prices that somebody wrote down: a YAML file with dollars by key.

    Args:
        file: The file.

    Raises:
        OperationError: When it cannot be read, names an unknown key or has something else than a price.
    """

    def __init__(self, file: Path) -> None:
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
        self._prices: dict[str, float] = prices
        self._file = file

    def of(self, key: str, unit: str) -> Price:
        """What the file says, and for nothing else a guess."""
        if key in self._prices:
            return Price(dollars=float(self._prices[key]), source=self._file.name)
        return Price(dollars=None, source=f"{self._file.name} has no {key}")


class CatalogPrices:
    """Google's list prices for a region, without free amounts and discounts.

    Args:
        clients: Of Google's APIs.
        region: The region.
    """

    def __init__(self, clients: Clients, region: str) -> None:
        self._clients = clients
        self._region = region
        self._skus: dict[str, list[dict[str, Any]]] = {}

    def of(self, key: str, unit: str) -> Price:
        """The price of the SKU that `known` describes, if there is exactly one.

        Raises:
            CallError: When the catalog does not answer.
        """
        described = known().get(key)
        if not described:
            return Price(dollars=None, source="in the reservation's contract: give it in a price file")
        pattern = re.compile(described["description"], re.IGNORECASE)
        skus = [sku for sku in self._of_service(described["service"]) if self._matches(sku, pattern)]
        found = {rate: sku for sku in skus if (rate := _rate(sku, unit)) is not None}
        if len(found) != 1:
            why = f"{len(found)} prices match" if found else "no SKU matches"
            return Price(dollars=None, source=f"{why} in the catalog for {self._region}")
        ((rate, sku),) = found.items()
        return Price(
            dollars=rate * described.get("per", 1),
            source=f"SKU {sku.get('skuId', '')} {sku.get('description', '')}",
        )

    def _of_service(self, service: str) -> list[dict[str, Any]]:
        if service not in self._skus:
            self._skus[service] = self._clients.every(
                "cloudbilling.v1",
                "services.skus.list",
                parent=f"services/{service}",
                currencyCode="USD",
                pageSize=5000,
            )
        return self._skus[service]

    def _matches(self, sku: Mapping[str, Any], pattern: re.Pattern[str]) -> bool:
        regions: Iterable[str] = sku.get("serviceRegions", ())
        here = self._region in regions or "global" in regions
        return here and bool(pattern.fullmatch(sku.get("description", "")))


@cache
def known() -> dict[str, dict[str, Any] | None]:
    """By key, what is in prices.yaml and in cloud/'s records; None for what the catalog cannot have."""
    billed = (each for record in records.every().values() for each in record.billed)
    own = {each.key: {"service": each.service, "description": each.description} for each in billed}
    return {**yaml.safe_load(Path(__file__).with_name("prices.yaml").read_text()), **own}


def _rate(sku: Mapping[str, Any], unit: str) -> float | None:
    """Dollars for one of our units at the dearest tier: the first one may be a free amount."""
    latest = (sku.get("pricingInfo") or [{}])[-1].get("pricingExpression", {})
    factor = _UNITS[unit].get(latest.get("usageUnit", ""))
    rates = [_dollars(tier.get("unitPrice", {})) for tier in latest.get("tieredRates", ())]
    return max(rates) * factor if factor and rates else None


def _dollars(money: Mapping[str, Any]) -> float:
    return int(money.get("units", 0)) + int(money.get("nanos", 0)) / 1e9
