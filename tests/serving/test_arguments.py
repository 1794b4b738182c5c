"""The real vLLM has the options that the stacks set, and those that they keep for themselves."""

import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

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
    serving = vllm.Vllm.model_construct(vllm_arguments=())
    words = serving.arguments_of_vllm(
        *("m", vllm.SAFETENSORS, *vllm.gke_arguments(2), *vllm.CLOUD_RUN_ARGUMENTS),
        *vllm.contents(pictures=False),
    )
    own = {word.partition("=")[0] for word in words if word.startswith("-")}
    refused = set(" ".join([*vllm.STACKS_OPTIONS, *vllm.UNSAFE_OPTIONS]).split())
    assert len(known) > 100
    assert not (own | refused) - known
    whole = {option for option in known - refused if len(option) > 2 and not option.endswith("-")}
    assert {
        option for option in whole if any(name.startswith(option) for name in refused)
    } == vllm.WHOLE_NAMES


# Reads a picture in a data address, then others. Prints the class of the error for each that is not read.
_FETCH = """
import base64, io, sys
from PIL import Image
from vllm.multimodal.media import MediaConnector
domains, *addresses = sys.argv[1:]
Image.new("RGB", (4, 4)).save(file := io.BytesIO(), "PNG")
picture = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
connector = MediaConnector(allowed_media_domains=[domains])
for address in [picture, *addresses]:
    try:
        connector.fetch_image(address)
        print("read")
    except Exception as error:
        print(type(error).__name__)
"""


def test_the_release_of_the_image_reads_pictures_in_requests_and_asks_no_address() -> None:
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    asked: list[str] = []

    class Listener(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    words = vllm.Vllm.model_construct(vllm_arguments=()).arguments_of_vllm("model")
    (domains,) = [value for word in words if (value := word.removeprefix("--allowed-media-domains=")) != word]
    with HTTPServer(("127.0.0.1", 0), Listener) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        here = f"127.0.0.1:{listener.server_port}"
        addresses = [f"http://{here}/a", f"http://{domains}@{here}/b", "file:///etc/hostname"]
        python = ROOT / ".venv-serving" / "bin" / "python"
        command = [python, "-c", _FETCH, domains, *addresses]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        listener.shutdown()
    assert shown[-4:] == ["read", "ValueError", "ValueError", "RuntimeError"]
    assert asked == []
