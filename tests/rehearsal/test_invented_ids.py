"""Google invents the ids of channels, dashboards and alerting policies: an orphan is in nobody's way."""

from typing import Any

import pytest

from cloud import records
from rehearsal.fakes.cloud import Rejected
from tests.rehearsal.asking import Platform
from tests.rehearsal.right import NETWORK

CHANNEL = "gcp:monitoring/notificationChannel:NotificationChannel"
INVENTED = sorted(type_ for type_, record in records.every().items() if record.id.endswith("/{digits}"))
EMAIL: dict[str, Any] = {"type": "email", "labels": {"email_address": "a@example.com"}}


def test_the_kinds_with_invented_ids_are_known() -> None:
    names = [type_.rpartition(":")[2] for type_ in INVENTED]
    assert names == ["AlertPolicy", "Dashboard", "NotificationChannel"]


def test_a_second_creation_makes_a_second_one_beside_the_orphan() -> None:
    platform = Platform("monitoring")
    first, outputs = platform.create(CHANNEL, "channel", EMAIL)
    second, again = platform.create(CHANNEL, "channel", EMAIL)
    assert first != second
    assert (outputs["name"], again["name"]) == (first, second)


def test_a_resource_with_a_name_is_still_in_the_way() -> None:
    platform = Platform("compute")
    network = {"name": "mine", "autoCreateSubnetworks": False}
    platform.create(NETWORK, "network", network)
    with pytest.raises(Rejected, match="already exists"):
        platform.create(NETWORK, "network", network)
