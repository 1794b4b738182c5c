"""vLLM's OpenAI-compatible server, as a container runs it."""

from dataclasses import dataclass
from typing import Final

PORT: Final = 8000
HEALTH: Final = "/health"
CHAT: Final = "/v1/chat/completions"

ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    # The driver that Cloud Run mounts, not the one of the image: that one and an older kernel module
    # are an "unsupported display driver / cuda driver combination".
    # https://github.com/gpustack/gpustack/issues/4678
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/nvidia/lib",
    "VLLM_NO_USAGE_STATS": "1",
}


@dataclass(frozen=True, kw_only=True)
class Vllm:
    """A server of one model on one GPU.

    Args:
        model: Directory of the model.
        served_model: What requests call it.
        longest_request: Tokens of a request and its answer together.
        requests: Requests that are decoded together; more wait.
    """

    model: str
    served_model: str
    longest_request: int
    requests: int

    @property
    def command(self) -> list[str]:
        """The command line."""
        return [
            *("vllm", "serve", self.model),
            *("--served-model-name", self.served_model),
            *("--port", str(PORT)),
            *("--max-model-len", str(self.longest_request)),
            *("--max-num-seqs", str(self.requests)),
            # Scaled to zero, a first answer waits for the start: nothing is compiled or captured in it.
            "--enforce-eager",
        ]
