"""The encryption key of a stack's resources: Google's, or one of the user's in Cloud KMS."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from stacks.settings.reader import GoogleSettings, Hint


class KeySettings(GoogleSettings):
    """Settings of the encryption of every scenario."""

    kms_key: Annotated[
        str | None, Hint(values="the full name of a key, projects/P/locations/REGION/keyRings/R/cryptoKeys/K")
    ] = Field(
        None,
        pattern=r"^projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}$",
        description="Key in Cloud KMS that encrypts what the stack creates: the bucket, images, secrets, the "
        "objects of the cluster, the nodes' boot disks, and the images' copies on Cloud Run. It must be in "
        "the stack's region. By default Google's keys encrypt all of this.",
    )

    @field_validator("kms_key")
    @classmethod
    def _is_a_key_of_the_region(cls, key: str | None, info: ValidationInfo) -> str | None:
        place, region = key and key.split("/")[3], info.data.get("region")
        if place and region and place != region:
            raise ValueError(
                f"the key is in {place} and the stack in {region}; name a key in {region}, because Google "
                "accepts no other"
            )
        return key
