"""vLLM: what every server is started with, and the settings that change it."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Final

from pydantic import Field

from components.finished_run.limits import length_in
from components.image.image import Image
from stacks import pins
from stacks.serving import vllm_options
from stacks.settings.image import ImageByDigest
from stacks.settings.model import ConfigModel, Hint
from stacks.settings.project import Project

PORT: Final = 8000
# The place of a finished run in the containers that serve it.
RUN_FOLDER: Final = "/run-of-the-job"
# Requests that vLLM decodes together on Cloud Run. 64 requests of the maximum length need 7 GB for keys and
# values, beside 2 GB of weights. An L4 has 24 GB.
CLOUD_RUN_REQUESTS: Final = 64
# By default vLLM ends the requests in progress with status 500 when it gets SIGTERM. `--shutdown-timeout` is
# the number of seconds in which it still answers them.
CLOUD_RUN_ARGUMENTS: Final = (
    *("--port", str(PORT)),
    *("--max-model-len", "4096"),
    *("--max-num-seqs", str(CLOUD_RUN_REQUESTS)),
    # Cloud Run kills an instance 10 s after SIGTERM.
    # https://docs.cloud.google.com/run/docs/container-contract
    *("--shutdown-timeout", "8"),
    # After scaling to zero the first answer waits for the start. Eager mode skips compilation and graph
    # capture.
    "--enforce-eager",
)

# Tokens of a request and its answer on GKE. Leaves memory for many requests at once.
GKE_LENGTH: Final = 8192

# The driver that GKE mounts, not the one in the image.
GPU_VARIABLES: Final = [{"name": "LD_LIBRARY_PATH", "value": "/usr/local/nvidia/lib64"}]

# How a Deployment of servers changes. Without a spare server a single one is gone until the new one answers.
WITHOUT_SPARE: Final = {"maxSurge": 0, "maxUnavailable": 1}
# At least half of the servers, and a single one, go on answering. The share rounds down.
NO_GAP: Final = {"maxSurge": 1, "maxUnavailable": "50%"}

_OPTION: Final = re.compile(r"--?[A-Za-z][\w.+-]*")
# As long as access tokens of the Hub are. Some names begin with hf_, too.
_TOKEN: Final = re.compile(r"\bhf_\w{30,}")
# In every server. Pictures come in the request itself, as a data address.
_NOTHING_FETCHED: Final = "--allowed-media-domains=none.invalid"
# For a model whose files are mounted. In other formats weights may come with code.
SAFETENSORS: Final = "--load-format=safetensors"


def streamed(address: str, name: str) -> list[str]:
    """The model at an address in a bucket, which answers to a name.

    The server streams the weights from the bucket to its GPUs (assumption streamer-in-image).
    """
    return [address, "--load-format=runai_streamer", f"--served-model-name={name}"]


def contents(*, pictures: bool) -> list[str]:
    """The form in which the chat template gets the contents of a conversation: as in the run's training.

    vLLM makes a list of parts of every text if the template takes one, and Gemma 4's template then writes
    another blank behind a system message. Rows without pictures are trained as texts.
    """
    return [] if pictures else ["--chat-template-content-format=string"]


def gke_arguments(gpus: int, length: int = GKE_LENGTH) -> list[str]:
    """The arguments of a server on GKE that spreads its model over `gpus` GPUs.

    Args:
        length: Tokens of a request and its answer, at most as many as the model has positions for.
    """
    return [
        f"--port={PORT}",
        f"--tensor-parallel-size={gpus}",
        # The grace period of the manifest leaves these seconds.
        "--shutdown-timeout=45",
        f"--max-model-len={length}",
    ]


class Vllm(ConfigModel):
    """Servers."""

    vllm_arguments: Annotated[
        tuple[str, ...],
        Hint(values='a list of vLLM\'s arguments such as ["--max-model-len=16384"]'),
    ] = Field(
        (),
        description="More arguments of `vllm serve`, after the stack's own. vLLM takes the last value of an "
        "option. Options that the stack must decide, such as the port, are rejected.",
    )
    serving_image: ImageByDigest = Field(
        None,
        description="Image of the servers, in which `vllm serve` starts one. By default the release of vLLM "
        "that `stacks/pins.py` names.",
    )
    serve_not_good: bool = Field(
        False, description="Whether to serve a model that fails `evaluation.good` of its recipe."
    )

    def server_image(self, project: Project, release: Image | None = None) -> Image:
        """The image of the servers.

        Args:
            release: The image if no setting names one. By default the release for GPUs.
        """
        return self.serving_image or release or Image.parse(project.mirrored(pins.VLLM_IMAGE))

    @property
    def users_length(self) -> int:
        """The user's `--max-model-len`, 0 without one and where a configuration of the user's decides."""
        return length_in(self.vllm_arguments)

    def arguments_of_vllm(self, model: str, *arguments: str) -> list[str]:
        """The command line of `vllm serve` after its name: the scenario's arguments, then the user's."""
        return [model, _NOTHING_FETCHED, *arguments, *self.vllm_arguments]

    def require_users_arguments(self, *, model_key: str, callers: str) -> None:
        """Checks that all arguments are the user's to set.

        Args:
            model_key: Key of the setting that decides what is served.
            callers: What decides who may ask, as a sentence.

        Raises:
            ValueError: If an argument is none, if the stack itself sets it, or if it is unsafe.
        """
        holes = {"model_key": model_key, "callers": callers, "port": PORT}
        reasons = {
            option: f"the stack sets {{}}, because {reason.format(**holes)}"
            for options, reason in vllm_options.STACKS_OPTIONS.items()
            for option in options.split()
        }
        for options, reason in vllm_options.UNSAFE_OPTIONS.items():
            reasons |= dict.fromkeys(options.split(), f"{{}} is not safe, because {reason}")
        of_release = self.serving_image is None
        if problems := [*_problems(self.vllm_arguments, reasons, of_release=of_release)]:
            raise ValueError("; ".join(problems))


def _problems(arguments: tuple[str, ...], reasons: Mapping[str, str], *, of_release: bool) -> Iterator[str]:
    takes_value = False
    for argument, following in zip(arguments, (*arguments[1:], ""), strict=False):
        option = _OPTION.match(argument)
        value = argument[option.end() :] if option else argument
        reason = ""
        if option:
            content = value.strip(" =") or following
            reason = vllm_options.reason_against(option[0], content, reasons, of_release=of_release)
        if reason and option:
            yield f"{reason.replace('{}', option[0])}; remove it"
        elif _TOKEN.search(argument):
            yield "a token is readable in the stack file; remove it, and set hfToken"
        elif option and value and not value.startswith("="):
            yield f"{argument!r} is an option with its value; write {option[0]}={value.strip()}"
        elif not option and not takes_value:
            yield f"{argument!r} follows no option; remove it"
        takes_value = not value if option else takes_value
