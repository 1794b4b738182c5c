"""The rehearsal's own network. It leads nowhere, every pod has an address, and names are in a hosts file."""

import ctypes
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from rehearsal.errors import RehearsalError

# The addresses of the pods, of the node that has all of them, and of the agent for the API server.
PODS: Final = "10.8.0.0/16"
NODE: Final = "10.8.0.1"
AGENT: Final = "10.8.255.254"
# The addresses of the stand-ins, outside of the cluster: of the Hub, of Cloud Storage, and of the metadata
# server, which has the one of Google Cloud. Policies take the first two for the internet.
OUTSIDE: Final = "34.0.2.1"
STORAGE: Final = "34.0.2.2"
METADATA: Final = "169.254.169.254"
# The names of the servers that these stand for.
ADDRESSES: Final = {"huggingface.co": OUTSIDE, "storage.googleapis.com": STORAGE}
_BRIDGE: Final = "pods"
# Programs of the Debian packages bubblewrap and iproute2.
_NEEDED: Final = ("bwrap", "ip")
_NAMESPACES: Final = 0x10000000 | 0x40000000 | 0x00020000  # CLONE_NEWUSER, CLONE_NEWNET, CLONE_NEWNS
# A process ends with the thread that has started it (PR_SET_PDEATHSIG). This thread lives to the end.
_STARTER: Final = ThreadPoolExecutor(1)


def missing() -> str:
    """What this machine lacks to run pods, and how to get it. Empty if it lacks nothing."""
    if absent := [program for program in _NEEDED if not shutil.which(program)]:
        return f"pods need {' and '.join(absent)}: apt-get install bubblewrap iproute2"
    result = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "true"], capture_output=True, text=True, check=False
    )
    if result.returncode:
        return f"pods need user namespaces, see user_namespaces(7); here: {result.stderr.strip()}"
    return ""


def enter(hosts: Path) -> None:
    """Moves this process into a network of its own, with the hosts file `hosts`.

    The process must have only one thread.

    Raises:
        RehearsalError: If this machine lacks something.
    """
    if reason := missing():
        raise RehearsalError(reason)
    user, group = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NAMESPACES):
        raise RehearsalError(f"no namespaces for pods: {os.strerror(ctypes.get_errno())}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _ip(
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"address add {NODE}/16 dev {_BRIDGE}",
        *(f"address add {address}/32 dev {_BRIDGE}" for address in (AGENT, OUTSIDE, STORAGE, METADATA)),
        f"link set {_BRIDGE} up addrgenmode none",
    )
    write_hosts(hosts, ())
    run("mount", "--bind", str(hosts), "/etc/hosts")


def write_hosts(hosts: Path, names: Iterable[tuple[str, str]]) -> None:
    """Replaces the content of a hosts file. The file stays the same, because pods have it mounted."""
    own = (("127.0.0.1", "localhost"), (METADATA, "metadata.google.internal metadata"))
    text = "".join(f"{address} {name}\n" for address, name in (*own, *names))
    hosts.touch()
    if text != hosts.read_text():
        with hosts.open("r+") as file:
            file.write(text)
            file.truncate()


def start(command: list[str], **options: Any) -> "subprocess.Popen[Any]":
    """Starts a process that ends with this one, and gets no signals of the terminal."""
    options |= {"stdin": subprocess.DEVNULL, "start_new_session": True}
    ending = ["setpriv", "--pdeathsig", "KILL", *command]
    return _STARTER.submit(subprocess.Popen, ending, **options).result()


class PodNetwork:
    """The network namespace of a pod.

    Attributes:
        address: The pod's address.
        enter: The beginning of a command line that runs in the namespace.
    """

    _numbers = itertools.count(2)

    def __init__(self) -> None:
        number = next(self._numbers)
        self.address = f"10.8.{number // 256}.{number % 256}"
        self._holder = start(["unshare", "--net", "sleep", "infinity"])
        namespace = Path(f"/proc/{self._holder.pid}/ns/net")
        while namespace.readlink() == Path("/proc/self/ns/net").readlink():
            os.sched_yield()
        self.enter = ["nsenter", f"--net={namespace}"]
        _ip(
            f"link add pod{number} type veth peer name eth0 netns {self._holder.pid}",
            f"link set pod{number} master {_BRIDGE} addrgenmode none up",
        )
        own = (
            f"address add {self.address}/16 dev eth0",
            "link set eth0 up addrgenmode none",  # no IPv6, as in the clusters
            f"route add default via {NODE}",
        )
        _ip("link set lo up", *own, enter=self.enter)

    def close(self) -> None:
        """Removes the namespace with its addresses."""
        self._holder.kill()
        self._holder.wait()


def _ip(*commands: str, enter: Sequence[str] = ()) -> None:
    run(*enter, "ip", "-batch", "-", text="\n".join(commands))


def run(*command: str, text: str = "") -> str:
    """Runs a command with a text as its input and returns its output.

    Raises:
        RehearsalError: If it fails, with its message.
    """
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if result.returncode:
        raise RehearsalError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout
