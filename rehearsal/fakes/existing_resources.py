"""What a stack's settings say exists already in Google Cloud, and is not the stack's."""

from collections.abc import Iterator, Mapping
from typing import Any

from cloud.services.compute import NETWORK, SUBNETWORK
from cloud.services.kms import KEY
from cloud.services.serviceaccount import ACCOUNT
from cloud.services.storage import BUCKET
from rehearsal.fakes import finished_run
from rehearsal.fakes.cloud import Item


def items(settings: Mapping[str, Any], namespace: str) -> list[Item]:
    """The items that the settings name.

    Args:
        settings: Values by full key.
        namespace: Namespace of the project's own keys.
    """
    own = {key.removeprefix(f"{namespace}:"): str(value) for key, value in _flat(settings)}
    return [*_buckets(own), *_networks(own), *_accounts(own), *_keys(own)]


def _flat(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys and values with objects opened: `pulumi config set --path accounts.nodes` stores an object."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            yield key, value


def _buckets(own: Mapping[str, str]) -> Iterator[Item]:
    for key in ("bucket", finished_run.SETTING):
        if key in own:
            name = finished_run.path_of(own[key]).parts[0]
            yield _item(BUCKET.type, name, {})


def _networks(own: Mapping[str, str]) -> Iterator[Item]:
    """A subnet with the ranges that the settings name, and its network, all in the subnet's project."""
    if "subnet" not in own:
        return
    subnet = own["subnet"]
    if "/" not in subnet:
        subnet = f"projects/{own['gcp:project']}/regions/{own['gcp:region']}/subnetworks/{subnet}"
    ranges = [{"rangeName": own[key]} for key in ("podsRange", "servicesRange") if key in own]
    yield _item(SUBNETWORK.type, subnet, {"secondaryIpRanges": ranges})
    if "network" in own:
        project = subnet.split("/")[1]
        yield _item(NETWORK.type, f"projects/{project}/global/networks/{own['network']}", {})


def _accounts(own: Mapping[str, str]) -> Iterator[Item]:
    for key, email in own.items():
        if key.startswith("accounts."):
            project = email.partition("@")[2].partition(".")[0]
            yield _item(ACCOUNT.type, f"projects/{project}/serviceAccounts/{email}", {})


def _keys(own: Mapping[str, str]) -> Iterator[Item]:
    if "kmsKey" in own:
        yield _item(KEY, own["kmsKey"], {})


def _item(type_token: str, item_id: str, inputs: dict[str, Any]) -> Item:
    name = item_id.rpartition("/")[2]
    return Item(type=type_token, id=item_id, name=name, inputs=inputs, outputs={"name": name})
