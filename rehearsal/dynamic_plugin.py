"""Runs the SDK's provider of dynamic resources, and ends when the engine does.

The engine starts a plugin in a process group of its own; one whose engine was killed would stay for ever.
Run as a file, `python -P rehearsal/dynamic_plugin.py ENGINE_ADDRESS`, by the plugin of `Rehearsal`.
"""

import os
import runpy
import threading
import time

_SECONDS_BETWEEN_LOOKS = 0.2


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    runpy.run_module("pulumi.dynamic", run_name="__main__", alter_sys=True)
