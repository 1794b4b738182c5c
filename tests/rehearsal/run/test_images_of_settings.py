"""Which image of this machine stands for an image of the settings."""

from pathlib import Path

import pytest

from engine.configuration import configuration
from rehearsal.errors import RehearsalError
from rehearsal.running_pods import surroundings
from rehearsal.running_pods.stage import images_of
from rehearsal.running_pods.surroundings import Surroundings
from tests.neutral_stacks import NEUTRAL

SERVER = f"us-docker.pkg.dev/team/images/our-server@sha256:{'a' * 64}"
TRAINER = f"us-docker.pkg.dev/team/images/our-trainer@sha256:{'b' * 64}"


@pytest.mark.parametrize(("stack", "folder"), [(NEUTRAL, "finetune"), ("tpu-maxtext", "maxtext")])
def test_an_image_of_the_settings_may_have_any_name(
    stack: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surroundings, "lay_out", lambda source, _scratch: source.name)
    around = Surroundings(tmp_path, lambda _line: None)
    around.folder = tmp_path
    with pytest.raises(RehearsalError, match="no image us-docker"):
        around._image(TRAINER)
    settings = configuration(stack, {"imageUri": TRAINER, "servingImage": SERVER})
    around.images = images_of(settings.plain)
    assert around._image(TRAINER) == folder
    assert around._image(SERVER) == "vllm"
