"""Runs a control plane by kwokctl: https://kwok.sigs.k8s.io/docs/user/kwokctl-manage-cluster/.

kwokctl starts and stops etcd, API server, controller manager, scheduler and kwok, and creates their keys.
"""

import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import yaml

from engine import go_build
from rehearsal.control_plane import kwok
from rehearsal.errors import RehearsalError

# Options of kwokctl's configuration: the paths of the programs, and the ports.
_PROGRAMS: Final = {
    "etcdBinary": "etcd",
    "kubeApiserverBinary": "kube-apiserver",
    "kubeControllerManagerBinary": "kube-controller-manager",
    "kubeSchedulerBinary": "kube-scheduler",
    "kwokControllerBinary": "kwok",
}
_PORTS: Final = (
    *("etcdPort", "etcdPeerPort", "kubeApiserverPort"),
    *("kubeControllerManagerPort", "kubeSchedulerPort", "kwokControllerPort"),
)
_FLAGS: Final = {
    "etcd": {"unsafe-no-fsync": "true"},  # nobody needs the data after the process
    "kube-apiserver": {
        # GKE has it too: pods that ask for an accelerator tolerate the taint of its nodes.
        "enable-admission-plugins": "ExtendedResourceToleration",
        # Without these the API server looks for an address of this machine that others could reach.
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
    },
    # There is only one. With an election it would end after ten seconds without an API server.
    "kube-controller-manager": {
        "leader-elect": "false",
        # By default every 15 s. A test may let minutes of a HorizontalPodAutoscaler pass in seconds.
        "horizontal-pod-autoscaler-sync-period": "250ms",
    },
    "kube-scheduler": {"leader-elect": "false"},
}
LOG_LINES: Final = 15
# The socket at which `rehearsal.pods` accepts the API server's connections to nodes and pods.
KONNECTIVITY: Final = "@konnectivity"
_EGRESS: Final = {
    "apiVersion": "apiserver.k8s.io/v1beta1",
    "kind": "EgressSelectorConfiguration",
    "egressSelections": [
        {
            "name": "cluster",
            "connection": {
                "proxyProtocol": "HTTPConnect",
                "transport": {"uds": {"udsName": KONNECTIVITY}},
            },
        }
    ],
}


def create(folder: Path, *, pods: bool = True) -> None:
    """Starts all programs. Returns before they are ready.

    Args:
        folder: Folder for their files and the administrator's kubeconfig.
        pods: Whether kwok simulates the pods.

    Raises:
        RehearsalError: If kwokctl fails, with its message.
    """
    flags: Mapping[str, Mapping[str, str]] = _FLAGS
    if not pods:
        (egress := folder / "egress.yaml").write_text(yaml.safe_dump(_EGRESS))
        to_pods = {"egress-selector-config-file": str(egress)}
        flags = {**_FLAGS, "kube-apiserver": {**_FLAGS["kube-apiserver"], **to_pods}}
    configuration = [_configuration(flags), *kwok.stages(pods=pods)]
    (folder / "kwok.yaml").write_text(yaml.safe_dump_all(configuration))
    _on(folder, "create", "cluster")


def delete(folder: Path) -> None:
    """Stops all programs."""
    _on(folder, "delete", "cluster")


def check(folder: Path) -> None:
    """Checks that all programs run.

    Raises:
        RehearsalError: If one has ended, with the end of its log.
    """
    for line in _on(folder, "get", "components", "--output=wide").splitlines()[1:]:
        name, status = line.split()
        if status != "Ready":
            log = _on(folder, "logs", name).splitlines()[-LOG_LINES:]
            raise RehearsalError(f"{name} ended as it started; the end of its log:\n" + "\n".join(log))


def _on(folder: Path, *arguments: str) -> str:
    """Runs kwokctl on the control plane in a folder and returns its output."""
    process = subprocess.Popen(
        [str(go_build.path_of("kwokctl")), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(folder),
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
    )
    try:
        output, errors = process.communicate()
    except BaseException:
        # A kill could leave a program whose process id kwokctl has not written yet.
        process.send_signal(signal.SIGINT)
        process.wait()
        raise
    if process.returncode:
        raise RehearsalError(f"kwokctl {' '.join(arguments)}: {error_in(errors, 'err')}")
    return output


def _environment(folder: Path) -> dict[str, str]:
    """The environment of kwokctl, with its own home: its client writes to `~/.kube/cache`."""
    own = {"HOME": folder, "KWOK_WORKDIR": folder, "KUBECONFIG": folder / "kubeconfig"}
    return {**os.environ, **{name: str(path) for name, path in own.items()}}


def free_ports(count: int) -> list[int]:
    """Different free ports on loopback. All are bound together, so that no port comes twice."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


def _configuration(flags_by_program: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    programs = {option: str(go_build.path_of(name)) for option, name in _PROGRAMS.items()}
    # kwokctl would choose ports by the clusters of one folder, so two rehearsals would collide.
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": {
            "runtime": "binary",
            "bindAddress": "127.0.0.1",
            # kwokctl would ask kubectl whether the API server answers. `Api.is_ready` asks that here.
            "kubectlBinary": "/bin/true",
            **programs,
            **ports,
        },
        "componentsPatches": [
            {"name": name, "extraArgs": [{"key": key, "value": value} for key, value in flags.items()]}
            for name, flags in flags_by_program.items()
        ],
    }


def error_in(output: str, key: str) -> str:
    """The reason of a failure: the value of a key in the last line of the output, a JSON object."""
    try:
        return str(json.loads(output.splitlines()[-1])[key])
    except (IndexError, ValueError, KeyError):
        return output.strip() or "no reason given"
