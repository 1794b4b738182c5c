"""The service accounts of a scenario: what runs as one, and what a stack's own account is granted."""

from collections.abc import Mapping
from typing import Final

from components.cluster.cluster import NODE_ROLES
from components.image.image_build import BUILD_ROLE
from stacks.settings.model import ConfigModel, keys_of, values_by_key

# Roles in the project that an account must have, by what runs as it. A stack grants them to an account of its
# own. Roles on single resources, such as the bucket, it grants to either kind of account.
PROJECT_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes": tuple(NODE_ROLES.values()),
    "build": (BUILD_ROLE,),
    "finetune": (),
    "serve": (),
}
_KEYS: Final = "accounts."


def purposes_of(model: type[ConfigModel]) -> list[str]:
    """What of a scenario runs as a service account, by its keys `accounts.PURPOSE`."""
    return [purpose for purpose in PROJECT_ROLES if f"{_KEYS}{purpose}" in keys_of(model)]


def accounts_of(settings: ConfigModel) -> Mapping[str, str]:
    """The service accounts that exist before the stack, by what runs as them."""
    values = values_by_key(settings)
    accounts = {purpose: values[f"{_KEYS}{purpose}"] for purpose in purposes_of(type(settings))}
    return {purpose: address for purpose, address in accounts.items() if address}
