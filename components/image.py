"""A container image, named so that it cannot change under a running stack."""

import re
from dataclasses import dataclass
from typing import Final

import pulumi

_URI: Final = re.compile(r"[a-z0-9][a-z0-9._:/-]*@sha256:(?P<digest>[0-9a-f]{64})")
_ARTIFACT_REGISTRY: Final = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<name>[^/]+)/.+"
)


@dataclass(frozen=True, kw_only=True)
class ImageRepository:
    """A repository of Artifact Registry.

    Args:
        project: Project that holds it.
        location: Region or multi-region, such as `us`.
        name: Repository id.
    """

    project: pulumi.Input[str]
    location: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image by digest, given or built by the stack.

    Args:
        uri: `REGISTRY/PATH@sha256:DIGEST`; of a built one an output.
        fingerprint: Eight hex digits that change with it, known before anything is deployed.
        repository: The Artifact Registry repository that nodes must be allowed to read, None elsewhere.
    """

    uri: pulumi.Input[str]
    fingerprint: str
    repository: ImageRepository | None

    @classmethod
    def parse(cls, text: str) -> "Image":
        """Reads an image reference.

        Raises:
            ValueError: When it is not a reference by digest.
        """
        reference = _URI.fullmatch(text)
        if not reference:
            raise ValueError(
                f"{text!r} is not an image by digest, REGISTRY/IMAGE@sha256:64 hex digits; "
                "a tag may point to another image tomorrow"
            )
        place = _ARTIFACT_REGISTRY.fullmatch(text)
        return cls(
            uri=text,
            fingerprint=reference["digest"][:8],
            repository=ImageRepository(**place.groupdict()) if place else None,
        )
