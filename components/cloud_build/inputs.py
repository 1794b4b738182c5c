"""What a build in Cloud Build is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import pulumi
from pydantic.alias_generators import to_camel

from components.once import OnceError


class BuildError(OnceError):
    """There is no image."""


@dataclass(frozen=True, kw_only=True)
class BuildInputs:
    """Inputs of a `CloudBuild`: outputs in the program, their values where the build runs.

    Args:
        image: `LOCATION-docker.pkg.dev/PROJECT/REPOSITORY/NAME:TAG`; the tag stands for the content.
        repository_created: When the repository was created; another one needs the image again.
        source_object: The context, a `.tar.gz` with a Dockerfile at its root.
        service_account: `projects/PROJECT/serviceAccounts/EMAIL` that the build runs as.
        machine_type: Cloud Build's own name of the machine, not Compute Engine's.
        disk_gb: Its disk, in GB. Base image, its layers unpacked and what is added must fit, about three
            times the 10 GB of a CUDA image.
        timeout_s: How long the build may take, in seconds, without the time in the queue.
    """

    project: pulumi.Input[str]
    location: str
    image: pulumi.Input[str]
    repository_created: pulumi.Input[str]
    source_bucket: pulumi.Input[str]
    source_object: pulumi.Input[str]
    source_generation: pulumi.Input[int]
    service_account: pulumi.Input[str]
    machine_type: str = "E2_HIGHCPU_8"
    disk_gb: int = 100
    timeout_s: int = 3600

    @classmethod
    def of(cls, properties: Mapping[str, Any]) -> Self:
        """Reads the resource's properties; every number of the engine is a float."""
        return cls(**{field.name: properties[to_camel(field.name)] for field in fields(cls)})

    def properties(self) -> dict[str, Any]:
        """By the names that the state has, such as `sourceBucket`."""
        return {to_camel(field.name): getattr(self, field.name) for field in fields(self)}
