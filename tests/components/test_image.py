"""Images are named by digest, and nodes may read just the repository that one comes from."""

import pytest

from components.image.image import Image, ImageRepository

DIGEST = f"@sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    "text", ["python", "python:3.12", "python@sha256:abc", DIGEST, f"UPPER/x{DIGEST}", f"x{DIGEST}\n"]
)
def test_an_image_without_a_digest_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not an image by digest"):
        Image.parse(text)


def test_the_repository_of_an_artifact_registry_image_is_known() -> None:
    image = Image.parse(f"europe-west4-docker.pkg.dev/my-project/images/team/finetune:1{DIGEST}")
    assert image.repository == ImageRepository(project="my-project", location="europe-west4", name="images")


def test_an_image_elsewhere_needs_no_grant() -> None:
    assert Image.parse(f"docker.io/rayproject/ray{DIGEST}").repository is None
