"""Google service accounts that exist before a stack, in place of its own: the setting `accounts`."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

from pydantic import Field, field_validator

from components.cluster.cluster import NODE_ROLES
from components.image.image_build import BUILD_ROLE
from stacks.settings.reader import GoogleSettings, Hint

# Roles in the project that an account must have, by what runs as it. A stack grants them to an account of its
# own. Roles on single resources, such as the bucket, it grants to either kind of account.
PROJECT_ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes": tuple(NODE_ROLES.values()),
    "build": (BUILD_ROLE,),
    "finetune": (),
    "serve": (),
}
_ID: Final = "[a-z][a-z0-9-]{4,28}[a-z0-9]"
_EMAIL: Final = re.compile(rf"{_ID}@{_ID}\.iam\.gserviceaccount\.com")


class AccountSettings(GoogleSettings):
    """Settings of the service accounts of every scenario.

    Attributes:
        runs_as: What does so, among the keys of `PROJECT_ROLES`. A subclass adds to that of its bases.
    """

    runs_as: ClassVar[tuple[str, ...]] = ()

    accounts: Annotated[
        dict[str, str], Hint(values="addresses of service accounts, by what runs as them")
    ] = Field(
        {},
        description="Service accounts that exist, by what runs as them: `nodes` of a cluster, the `build` of "
        "the image, and on Cloud Run `finetune` and `serve`. The bootstrap makes them, so that a pipeline "
        "acts as no other account. By default the stack creates its own.",
    )

    @classmethod
    def purposes(cls) -> tuple[str, ...]:
        """What runs as a service account, in the order of `PROJECT_ROLES`."""
        bases = [base for base in cls.__mro__ if issubclass(base, AccountSettings)]
        declared = {purpose for base in bases for purpose in base.runs_as}
        return tuple(purpose for purpose in PROJECT_ROLES if purpose in declared)

    @field_validator("accounts")
    @classmethod
    def _are_addresses(cls, accounts: dict[str, str]) -> dict[str, str]:
        for purpose, email in accounts.items():
            if purpose not in cls.purposes():
                raise ValueError(
                    f"nothing of this scenario runs as {purpose!r}; it has {', '.join(cls.purposes())}"
                )
            if not _EMAIL.fullmatch(email):
                raise ValueError(
                    f"{email!r} for {purpose} is not an address such as NAME@PROJECT.iam.gserviceaccount.com"
                )
        return accounts
