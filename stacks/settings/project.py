"""The topic of a stack's project: where it is, and what a company sets for all of its resources."""

import re
from typing import Annotated, Final, Literal

import pulumi
from pydantic import Field, PrivateAttr

from stacks.settings.model import ConfigModel, Hint, rule

REGION: Final = r"^[a-z]+(-[a-z]+)+[0-9]+$"
# Zones for AI have longer names, such as us-south1-ai1b.
ZONE: Final = REGION.replace("$", "-([a-z]|ai[0-9]+[a-z])$")
ProjectId = Annotated[
    str,
    Field(
        alias="gcp:project",
        pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$",
        examples=["MY_PROJECT"],
        description="Project in which everything is created.",
    ),
    Hint(
        values="a project id (6 to 30 lower-case letters, digits and hyphens, not the project's number)",
        fake="rehearsal-project",
    ),
]
Region = Annotated[
    str,
    Field(
        alias="gcp:region",
        pattern=REGION,
        examples=["us-central1"],
        description="Region of all resources. It must be the region of the machines' capacity.",
    ),
    Hint(values="a region such as us-central1 (not a zone)"),
]
_ID: Final = "[a-z][a-z0-9-]{4,28}[a-z0-9]"
# A service account that exists, in place of one of the stack's own. Its key is `accounts.PURPOSE`.
AccountAddress = Annotated[
    str | None,
    Field(
        pattern=rf"^{_ID}@{_ID}\.iam\.gserviceaccount\.com$",
        examples=["NAME@PROJECT.iam.gserviceaccount.com"],
    ),
    Hint(values="an address such as NAME@PROJECT.iam.gserviceaccount.com"),
]
# Value of `registry` for a registry that the stack creates.
_OWN_REGISTRY: Final = "own"
# Those of a repository, less the end of its upstreams' names.
_MOST_CHARACTERS: Final = 50


class Project(ConfigModel):
    """Project and company."""

    scenario: Annotated[str, Hint(values="the name of a scenario")] = Field(
        description="Which system the stack runs."
    )
    project: ProjectId
    region: Region
    alert_email: Annotated[str | None, Hint(values="an e-mail address")] = Field(
        None,
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        examples=["me@example.com"],
        description="Address that gets an e-mail when a job has failed, when accelerators have been idle for "
        "half an hour, and when a workload has waited for an hour. Without it there are no alerts, which "
        "Google bills.",
    )
    kms_key: Annotated[
        str | None, Hint(values="the full name of a key, projects/P/locations/REGION/keyRings/R/cryptoKeys/K")
    ] = Field(
        None,
        pattern=r"^projects/[a-z0-9.:-]+/locations/[a-z0-9-]+/keyRings/[\w-]{1,63}/cryptoKeys/[\w-]{1,63}$",
        description="Key in Cloud KMS that encrypts what the stack creates: the bucket, images, secrets, the "
        "objects of the cluster, the nodes' boot disks, and the images' copies on Cloud Run. It must be in "
        "the stack's region. By default Google's keys encrypt all of this.",
    )
    registry: Annotated[
        str | None,
        Hint(values="own, or a registry with a path, such as LOCATION-docker.pkg.dev/PROJECT/REPOSITORY"),
    ] = Field(
        None,
        pattern=r"^own$|^[a-z0-9][a-z0-9.-]*\.[a-z]+(:[0-9]+)?(/[a-z0-9][a-z0-9._-]*)+$",
        examples=["us-central1-docker.pkg.dev/MY_PROJECT/images"],
        description="Registry in place of Docker Hub and registry.k8s.io. vLLM's server, the base of the "
        "training image and Kueue's manager come from it, by their usual paths and digests. Nodes and the "
        "build get access if it is in Artifact Registry. With `own` the stack creates one there, which "
        "fetches each image once. By default the images come from where they are published.",
    )

    binary_authorization: Literal["project"] | None = Field(
        None,
        description="With `project` the project's policy of Binary Authorization decides which images GKE "
        "and Cloud Run start. It must admit the images of the stack. By default nothing asks a policy.",
    )
    # Addresses of the published images that the stack pulls.
    _published: set[str] = PrivateAttr(default_factory=set)

    @rule("kmsKey")
    def _key_is_in_the_region(self) -> None:
        place = self.kms_key and self.kms_key.split("/")[3]
        if place and place != self.region:
            raise ValueError(
                f"the key is in {place} and the stack in {self.region}; name a key in {self.region}, because "
                "Google accepts no other"
            )

    @property
    def mirror_id(self) -> str:
        """Name of the stack's own repository in front of the others, empty if it has none."""
        stack = re.sub(r"[^a-z0-9-]", "-", pulumi.get_stack().lower())
        has_own = self.registry == _OWN_REGISTRY
        return f"mirror-{stack}"[:_MOST_CHARACTERS].rstrip("-") if has_own else ""

    def mirrored(self, uri: str) -> str:
        """The address at which an image `HOST/PATH@DIGEST` is pulled."""
        self._published.add(uri)
        if not self.registry:
            return uri
        own = f"{self.region}-docker.pkg.dev/{self.project}/{self.mirror_id}"
        return f"{own if self.registry == _OWN_REGISTRY else self.registry}/{uri.partition('/')[2]}"

    def warn_of_unused_registry(self) -> None:
        """Warns if nothing that the stack has declared comes from `registry`."""
        if self.registry and not self._published:
            pulumi.log.warn(
                "registry does nothing here: every image of this stack has an address in the settings, such "
                "as imageUri; remove registry"
            )
