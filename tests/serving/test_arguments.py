"""The real vLLM has the options that the stacks set, and those that they keep for themselves."""

import re
import subprocess

import pytest

from engine.project import ROOT
from rehearsal.pods import image
from rehearsal.running_pods.surroundings import REAL_SERVER
from stacks.serving import vllm


def test_no_option_is_unknown_to_the_release_of_the_image() -> None:
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    command = [ROOT / ".venv-serving" / "bin" / "python", REAL_SERVER / "vllm", "serve", "--help=all"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown))
    words = [*vllm.gke_arguments(2), *vllm.CLOUD_RUN_ARGUMENTS]
    own = {word.partition("=")[0] for word in words if word.startswith("-")}
    refused = set(" ".join(vllm.STACKS_OPTIONS).split())
    assert len(known) > 100
    assert not (own | refused) - known
