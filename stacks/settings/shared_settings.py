"""Settings that several scenarios share."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from components.cluster.capacity import FLEX_START_MAX_HOURS
from components.cluster.control_plane import ControlPlane, ControlPlaneType
from components.image.image import Image
from stacks.settings.accounts import AccountSettings
from stacks.settings.alerts import AlertSettings
from stacks.settings.capacity import CapacitySettings
from stacks.settings.keys import KeySettings
from stacks.settings.network import ClusterNetworkSettings
from stacks.settings.reader import Hint, parsed_by
from stacks.settings.registry import RegistrySettings

# A run has no step while it downloads and loads its model.
_LEAST_IDLE_MINUTES: Final = 15
# Google accepts lower-case letters, digits and hyphens in most names.
Name = Annotated[
    str | None,
    Field(pattern=r"^[a-z][a-z0-9-]{1,61}[a-z0-9]$", examples=["NAME"]),
    Hint(values="3 to 63 lower-case letters, digits and hyphens that start with a letter"),
]
_ClusterName = Annotated[
    str | None,
    Field(pattern=r"^[a-z][a-z0-9-]{1,30}[a-z0-9]$"),
    Hint(values="3 to 32 lower-case letters, digits and hyphens that start with a letter"),
]
ImageByDigest = Annotated[
    Image | None,
    parsed_by(Image.parse),
    Hint(values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST"),
]
Egress = Literal["https", "googleAndHub", "open"]


class StackSettings(AccountSettings, AlertSettings, KeySettings, RegistrySettings):
    """Settings of every scenario."""

    scenario: Annotated[str, Hint(values="the name of a scenario")] = Field(
        description="Which system the stack runs."
    )


class BucketSettings(StackSettings):
    """Settings of every scenario with a bucket."""

    force_destroy: bool = Field(
        False,
        description="Whether `pulumi destroy`, or an `up` that replaces the bucket, may delete the bucket "
        "with everything that runs have written. If false, both fail before anything is deleted, and the "
        "outputs `destroyAll` and `destroyAllButBucket` are the two commands that succeed.",
    )
    bucket_name: Name = Field(
        None,
        description="Name of the bucket. By default Pulumi generates a unique name. Another name on a stack "
        "that is up replaces the bucket: the old bucket is deleted first, with everything that runs have "
        "written. With `forceDestroy` false that fails.",
    )

    @field_validator("bucket_name")
    @classmethod
    def _is_not_googles(cls, name: str | None) -> str | None:
        """Rejects names that Cloud Storage refuses. https://docs.cloud.google.com/storage/docs/buckets#naming"""
        if name and (name.startswith("goog") or "google" in name):
            raise ValueError(f"{name!r} begins with goog or contains google, which Cloud Storage refuses")
        return name

    bucket: Annotated[str | None, Hint(values="gs://NAME, without a folder")] = Field(
        None,
        pattern=r"^gs://[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$",
        examples=["gs://MY_BUCKET"],
        description="A bucket that exists, in place of one of the stack's own. The runs are in its folder "
        "with the stack's name. `pulumi destroy` deletes neither the bucket nor a run.",
    )

    @field_validator("bucket")
    @classmethod
    def _excludes_one_of_its_own(cls, bucket: str | None, info: ValidationInfo) -> str | None:
        own = [key for key in ("bucket_name", "force_destroy") if info.data.get(key)]
        if bucket and own:
            keys = " and ".join(map(to_camel, own))
            raise ValueError(f"the stack then has no bucket of its own; remove {keys}, or bucket")
        return bucket


class RunSettings(StackSettings):
    """Settings of every scenario whose runs end."""

    run: Annotated[str | None, Hint(values="at most 63 letters, digits, '.', '_' or '-'")] = Field(
        None,
        # As `RUN_NAME` of the trainers has it.
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$",
        description="Name of the run. A run with this name in the bucket goes on, also with other code, "
        "other libraries or another image. By default the name is the recipe's, with a digest of everything "
        "that the run depends on.",
    )
    idle_minutes: int = Field(
        60,
        ge=0,
        le=720,
        description="Minutes that a run may go without a step, an evaluated batch or a checkpoint. Then it "
        "is saved, if it still can be, and ends, because idle accelerators cost as much as busy ones. "
        "Loading the model counts too. With 0 there is no limit.",
    )
    max_run_hours: int | None = Field(
        None,
        ge=1,
        # The limit of flex-start. Somebody should look at a longer run before it goes on.
        le=FLEX_START_MAX_HOURS,
        description="Hours that a run may train, in all its tries together. Then the run is saved and ends. "
        "The wait for machines does not count. By default there is no limit.",
    )

    @field_validator("idle_minutes")
    @classmethod
    def _leave_time_to_start(cls, minutes: int) -> int:
        if 0 < minutes < _LEAST_IDLE_MINUTES:
            raise ValueError(
                f"a run may need {minutes} minutes to load its model; set {_LEAST_IDLE_MINUTES} or more, "
                "or 0 for no limit"
            )
        return minutes


class GkeSettings(ClusterNetworkSettings, CapacitySettings, StackSettings):
    """Settings of every scenario on GKE."""

    runs_as: ClassVar = ("nodes",)

    cluster_name: _ClusterName = Field(
        None,
        description="Start of the GKE cluster's name, to which Pulumi appends seven hexadecimal digits. By "
        "default `SCENARIO-cluster`. Another start is another cluster: Pulumi creates it before it deletes "
        "the old one.",
    )
    hold_upgrades: bool = Field(
        True,
        description="Whether to keep GKE from upgrading nodes and the minor version by itself, so that no "
        "upgrade interrupts a run. This works until GKE's support of the version ends. GKE always patches "
        "the control plane.",
    )

    egress: Egress = Field(
        "https",
        description="Where the pods may connect to. With `https` to each other, to name servers, to the "
        "metadata server, and on port 443 to public addresses, such as those of Google's APIs and the Hub. "
        "With `googleAndHub` on port 443 to Google's APIs and the Hugging Face Hub alone, by their names. "
        "With `open` everywhere, for example to a tracker in a private network or on another port.",
    )

    control_plane_type: Annotated[
        ControlPlaneType,
        Field(
            alias="controlPlane",
            description="Address of the cluster's API server. With `dns` it has a name and no IP address. It "
            "answers callers in every network who have the permission `container.clusters.connect`. With "
            "`public` or `private` it has an IP address of that kind, and answers only the "
            "`authorizedNetworks`. A change keeps the cluster.",
        ),
    ] = ControlPlaneType.DNS
    authorized_networks: Annotated[
        tuple[str, ...], Hint(values="a network in CIDR notation such as 203.0.113.0/24, or a list")
    ] = Field(
        (),
        validate_default=True,
        description="Networks that may connect to the API server. Include the network of the machine that "
        "runs `pulumi up`. Required with `controlPlane` `public` and `private`, and refused with `dns`.",
    )

    @property
    def control_plane(self) -> ControlPlane:
        """How the cluster's API server is reached."""
        return ControlPlane(type=self.control_plane_type, authorized_networks=self.authorized_networks)

    @field_validator("authorized_networks")
    @classmethod
    def _belong_to_address(cls, networks: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "control_plane_type" in info.data:
            ControlPlane(type=info.data["control_plane_type"], authorized_networks=networks)
        return networks
