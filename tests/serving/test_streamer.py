"""What vLLM streams weights with reads Cloud Storage as the stand-in serves it, with a pod's identity."""

import json
import os
import subprocess
from pathlib import Path
from typing import Final

import pytest

from engine.project import ROOT
from rehearsal.pods import image
from rehearsal.running_pods.surroundings import REAL_SERVER
from rehearsal.stand_ins.bucket import Buckets
from rehearsal.stand_ins.loopback import Request
from rehearsal.stand_ins.metadata import MetadataServer

# Writes two tensors to the bucket's folder, and reads them by the bucket's address.
_PROGRAM: Final = """
import json, os, sys
import torch
from runai_model_streamer import SafetensorsStreamer, list_safetensors, pull_files
from safetensors.torch import save_file

folder, address, pulled = sys.argv[1:]
written = {"a": torch.arange(70_000.0), "b": torch.ones(3, 4, dtype=torch.bfloat16)}
save_file(written, f"{folder}/model.safetensors")
pull_files(address, pulled, None, ["*.safetensors"])
with SafetensorsStreamer() as streamer:
    streamer.stream_files(list_safetensors(address))
    equal = {name: torch.equal(tensor, written[name]) for name, tensor in streamer.get_tensors()}
print(json.dumps({"equal": equal, "pulled": sorted(os.listdir(pulled))}))
"""


def test_it_reads_weights_and_configuration_from_a_folder_of_the_bucket(tmp_path: Path) -> None:
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    model, pulled = tmp_path / "buckets/bucket/weights/model", tmp_path / "pulled"
    for folder in (model, pulled):
        folder.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    ranges: list[str] = []

    class Watched(Buckets):
        def serve(self, request: Request) -> None:
            ranges.append(request.headers.get("Range", ""))
            super().serve(request)

    metadata = MetadataServer(lambda _address: "token", "project", "server@project")
    with Watched(tmp_path / "buckets") as buckets, metadata:
        place = metadata.address.removeprefix("http://")
        environment = os.environ | {
            "CLOUD_STORAGE_EMULATOR_ENDPOINT": buckets.address,
            "STORAGE_EMULATOR_HOST": buckets.address,
            "GCE_METADATA_ROOT": place,
            "GCE_METADATA_HOST": place,
            "GCE_METADATA_IP": place,
        }
        environment.pop("GOOGLE_APPLICATION_CREDENTIALS", None)
        python = ROOT / ".venv-serving/bin/python"
        arguments = [python, "-c", _PROGRAM, model, "gs://bucket/weights/model", pulled]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result == {"equal": {"a": True, "b": True}, "pulled": ["config.json"]}
    assert sum(part.startswith("bytes=") for part in ranges) > 2
