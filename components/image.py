"""A container image, named so that it cannot change under a running stack."""

import re
from dataclasses import dataclass
from typing import Final

_URI: Final = re.compile(r"(?P<path>[a-z0-9][a-z0-9._:/-]*)@sha256:[0-9a-f]{64}")
_ARTIFACT_REGISTRY: Final = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/.+"
)


@dataclass(frozen=True, kw_only=True)
class ImageRepository:
    """A repository of Artifact Registry.

    Args:
        project: Project that holds it.
        location: Region or multi-region, such as `us`.
        name: Repository id.
    """

    project: str
    location: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Image:
    """An image by digest.

    Args:
        uri: `REGISTRY/PATH@sha256:DIGEST`.
    """

    uri: str

    @classmethod
    def parse(cls, text: str) -> "Image":
        """Reads an image reference.

        Raises:
            ValueError: When it is not a reference by digest.
        """
        if not _URI.fullmatch(text):
            raise ValueError(
                f"{text!r} is not an image by digest, REGISTRY/IMAGE@sha256:64 hex digits; "
                "a tag may point to another image tomorrow"
            )
        return cls(uri=text)

    @property
    def repository(self) -> ImageRepository | None:
        """The Artifact Registry repository that nodes must be allowed to read, None elsewhere."""
        match = _ARTIFACT_REGISTRY.fullmatch(self.uri)
        if not match:
            return None
        return ImageRepository(project=match["project"], location=match["location"], name=match["repository"])
