"""vLLM: what every server is started with."""

from typing import Final

PORT: Final = 8000
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


def gke_arguments(gpus: int) -> list[str]:
    """The arguments of a server on GKE that spreads its model over `gpus` GPUs."""
    return [
        f"--port={PORT}",
        f"--tensor-parallel-size={gpus}",
        # The grace period of the manifest leaves these seconds.
        "--shutdown-timeout=45",
        # Tokens of a request and its answer. Leaves memory for many requests at once.
        "--max-model-len=8192",
    ]
