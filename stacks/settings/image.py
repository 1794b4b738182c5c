"""A setting that names an image."""

from typing import Annotated

from components.image.image import Image
from stacks.settings.model import Hint, parsed_by

ImageByDigest = Annotated[
    Image | None,
    parsed_by(Image.parse),
    Hint(values="an image by digest, REGISTRY/IMAGE@sha256:DIGEST"),
]
