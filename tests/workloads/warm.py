"""Runs a Python program in a fork of a process that has imported torch and the trainer: 9 CPU seconds saved.

    python warm.py PROGRAM ARGUMENTS...     what `python PROGRAM ARGUMENTS...` does

The program gets this process's environment, directory and open files 0 to 2, and a session of its own. This
process passes signals on to it and ends as it ends. The program ends with this process.

The process to fork is `python warm.py` with a Unix socket as its input, which the variable WARM names. It
ends with the process whose id the variable WARM_UNTIL holds.
"""

import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

# In the program's environment the process that started it, which is not its parent.
STARTED_BY = "STARTED_BY"
PASSED_ON = (signal.SIGTERM, signal.SIGINT)
# What a run imports, also late, while it loads a tiny model or saves a checkpoint.
IMPORTED = (
    "finetune.torchrun",
    "finetune.local_driver",
    "finetune.model.attention",
    "transformers.models.gemma3.modeling_gemma3",
    "transformers.models.gemma3.processing_gemma3",
    "transformers.models.gemma3.image_processing_gemma3",
    "peft.tuners.lora.bnb",
    "peft.utils.transformers_weight_conversion",
)


def main(arguments: list[str]) -> int:
    """Have the program run, and end as it ends."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(os.environ["WARM"])
    environment = {**os.environ, STARTED_BY: str(os.getppid())}
    socket.send_fds(connection, [json.dumps([arguments, environment, str(Path.cwd())]).encode()], [0, 1, 2])
    program = int(connection.recv(64))

    def pass_on(number: int, _: object) -> None:
        # The program may have ended, and its end not be read yet.
        with suppress(ProcessLookupError):
            os.killpg(program, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    code = os.waitstatus_to_exitcode(int(connection.recv(64)))
    if code < 0:
        for number in PASSED_ON:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def serve(listener: socket.socket) -> None:
    """Run a program for each connection. Returns in the program's process, at its end."""
    gc.disable()
    # Nothing here may start a thread: a fork has only one.
    for module in IMPORTED:
        import_module(module)
    import_module("PIL.Image").init()
    # Compiles a thousand regular expressions, which are kept.
    import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("gemma3")
    # Otherwise a program goes through all of it again at its end, which takes two seconds.
    gc.freeze()
    gc.enable()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    ended = os.pidfd_open(int(os.environ["WARM_UNTIL"]))
    while ended not in select.select([listener, ended], [], [])[0]:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            attend(connection)
            return
        connection.close()
    shutil.rmtree(Path(listener.getsockname()).parent)


def attend(connection: socket.socket) -> None:
    """Run the program that the other side names, and tell it the pid and at last the status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    program = os.fork()
    if not program:
        connection.close()
        return run(*json.loads(message), files)
    connection.send(str(program).encode())
    ended = os.pidfd_open(program)
    if ended not in select.select([connection, ended], [], [])[0]:
        os.kill(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    connection.send(str(status).encode())
    os._exit(0)


def run(arguments: list[str], environment: dict[str, str], directory: str, files: list[int]) -> None:
    """Run the program in this process."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    # The imports have cached the temporary folder of this process, which the program does not share.
    tempfile.tempdir = None
    os.chdir(directory)
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(main(sys.argv[1:]))
    serve(socket.socket(fileno=0))
