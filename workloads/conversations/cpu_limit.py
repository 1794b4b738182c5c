"""Whether a program of somebody else ends: tried in a fork, which the kernel kills after some CPU seconds."""

import os
import resource
import signal
import warnings
from collections.abc import Callable

# CPU seconds, so that a busy machine changes nothing. No chat template takes a hundredth of them.
SECONDS = 30
# Seconds for a fork that waits for a lock of a thread that it does not have. It says nothing of the action.
PATIENCE = 300


def ends(action: Callable[[], object]) -> bool:
    """Whether an action returns, or raises, within `SECONDS` CPU seconds. Its result and errors are dropped.

    A thread could not watch it: some operations of Python take hours and let no other thread run.
    """
    with warnings.catch_warnings():
        # JAX and Python warn of forks of processes with threads.
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        _run(action)
    _, status = os.waitpid(child, 0)
    return not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)


def _run(action: Callable[[], object]) -> None:
    """Run the action and end this process, after an error too."""
    try:
        for number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        signal.alarm(PATIENCE)
        action()
    finally:
        os._exit(0)
