"""Which exceptions may be over by the next start, and which say that the input is wrong.

An exception comes from the input unless this table knows it. A library that refuses a data set, a chat
template or a model does so again in the next start.
"""

import errno
import re
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from shared.errors import InputError, PassingError, causes, one_line
from shared.recipe_file import RecipeError

# Exceptions that may pass, by the full names of their classes or of a class above, and who raises them.
PASSING: Final = {
    "builtins.ConnectionError": "the network",
    "builtins.TimeoutError": "the network",
    "builtins.MemoryError": "the node",
    "concurrent.futures.process.BrokenProcessPool": "the node",
    "httpx.TransportError": "the Hub",
    "httpx2.TransportError": "the Hub",
    "requests.exceptions.ConnectionError": "the Hub",
    "requests.exceptions.Timeout": "the Hub",
    "ray.exceptions.RayError": "the Ray cluster",
    "torch.AcceleratorError": "the GPU",
    "torch.distributed.DistBackendError": "another process",
    "torch.distributed.DistNetworkError": "another process",
    "torch.distributed.DistStoreError": "another process",
    "torch.distributed.checkpoint.api.CheckpointException": "the storage",
}
# Numbers of the system's errors that may pass.
NUMBERS: Final = {
    getattr(errno, name): owner
    for owner, names in {
        "the node": "EAGAIN EBUSY EINTR EIO EMFILE ENFILE ENOMEM ENOSPC EDQUOT ESTALE",
        "the network": "ECONNABORTED ECONNREFUSED ECONNRESET EHOSTUNREACH ENETDOWN ENETUNREACH EPIPE",
    }.items()
    for name in names.split()
}
# Words in exceptions of a class that says nothing, such as RuntimeError.
WORDS: Final = {
    r"DataLoader worker .* (is killed by signal|exited unexpectedly)": "the node",
    r"CUDA error|cuDNN error|CUBLAS_STATUS|NVML": "the GPU",
    r"\bNCCL\b|ncclSystemError|ncclRemoteError|[Gg]loo": "another process",
    r"Connection (closed by peer|reset by peer)|[Bb]roken pipe": "another process",
}
# The words of the system and safetensors, and those of torch, for a full disk.
FULL_DISK: Final = re.compile("No space left on device|PytorchStreamWriter failed writing")
# torch's exception for a GPU without enough memory. The same rows will take as much again.
OUT_OF_MEMORY: Final = "torch.OutOfMemoryError"


def owner(error: BaseException) -> str | None:
    """The owner of an exception that may pass, or None if it comes from the input."""
    for cause in causes(error):
        names = _names(cause)
        if OUT_OF_MEMORY in names:
            return None
        if passing := next((PASSING[name] for name in names if name in PASSING), None):
            return passing
        if isinstance(cause, OSError) and cause.errno in NUMBERS:
            return NUMBERS[cause.errno]
        status = getattr(getattr(cause, "response", None), "status_code", 0)
        if status in (408, 429) or status >= 500:
            return "the Hub"
        if by_words := next((who for words, who in WORDS.items() if re.search(words, str(cause))), None):
            return by_words
    return None


@contextmanager
def in_one_line(what: str = "") -> Generator[None]:
    """Raise every exception of the block as `explained` does, but a recipe's and the end of the process."""
    try:
        yield
    except RecipeError:
        raise
    # torch's CheckpointException, which sharded training raises, is no Exception.
    except BaseException as error:
        if isinstance(error, InputError | PassingError | SystemExit | KeyboardInterrupt | GeneratorExit):
            raise
        raise explained(error, what) from error


def explained(error: BaseException, what: str = "") -> InputError | PassingError:
    """The same error as one line of ours. Prints the traceback above, except for a full disk.

    Args:
        what: What failed, for the beginning of the line.
    """
    if isinstance(error, InputError | PassingError):
        return error
    # The text of CheckpointException is the tracebacks of all ranks.
    if full := [one_line(cause) for cause in causes(error) if FULL_DISK.search(str(cause))]:
        remedy = "a disk is full; with more room the same command goes on from the newest checkpoint"
        return PassingError(f"{remedy}: {min(full, key=len)}")
    traceback.print_exception(error, file=sys.stderr)
    reason = f"{what and f'{what}: '}{type(error).__name__}: {one_line(error)}"
    if who := owner(error):
        return PassingError(f"{reason} (from {who}; the next start tries again)")
    if OUT_OF_MEMORY in _names(error):
        return InputError(
            f"{reason}; lower training.batch_size or training.max_length, set "
            "training.gradient_checkpointing, or take a machine with more memory"
        )
    return InputError(f"{reason} (the traceback above says where; the next start would end the same way)")


def _names(error: BaseException) -> list[str]:
    """The full names of the class of an error and of those above it, as programs import them."""
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
