"""The capacity keeper of a stack, as a process beside the API server. In a cluster it is a pod.

Code, arguments and rights are those that the stack has applied. Only its minutes are shorter.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from rehearsal.control_plane.api import Api, Object

NAME: Final = "capacity-keeper"
# Seconds between two of its looks.
_PERIOD: Final = 0.2


def is_keeper(tree: Mapping[str, Any]) -> bool:
    """Whether an object is the keeper's Deployment."""
    return tree["kind"] == "Deployment" and tree["metadata"]["name"] == NAME


class CapacityKeeper:
    """The keeper. It runs from `start` to `stop`.

    Args:
        api: The API server.
        folder: Folder for its code, its token and its log.
        administrator: Path of the administrator's kubeconfig.

    Attributes:
        minute: Seconds of one of its minutes. `start` reads it.
    """

    def __init__(self, api: Api, folder: Path, administrator: Path) -> None:
        self._api, self._folder = api, folder
        self._cluster = yaml.safe_load(administrator.read_text())["clusters"][0]["cluster"]
        self._process: subprocess.Popen[bytes] | None = None
        self.minute = 0.3

    def start(self, deployment: Object) -> None:
        """Starts the keeper. A keeper that runs is ended."""
        self.stop()
        spec, space = deployment["spec"]["template"]["spec"], deployment["metadata"]["namespace"]
        (container,) = spec["containers"]
        code = self._lay_out(spec, container, space)
        metadata = {"name": spec["serviceAccountName"], "namespace": space}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        (self._folder / "token").write_text(self._api.token(account))
        (self._folder / "ca.crt").write_bytes(Path(self._cluster["certificate-authority"]).read_bytes())
        _, *module = container["command"]
        own = [f"--api={self._cluster['server']}", f"--account={self._folder}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *module,
                    *container["args"],
                    *own,
                    f"--period={_PERIOD}",
                    f"--minute={self.minute}",
                ],
                cwd=code,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which decides
            )

    def stop(self) -> None:
        """Ends it, if it runs."""
        if self._process:
            self._process.kill()
            self._process.wait()
        self._process = None

    def log(self) -> str:
        """What it has printed."""
        file = self._folder / "log"
        return file.read_text() if file.exists() else ""

    def _lay_out(self, spec: Object, container: Object, space: str) -> Path:
        """Writes the code from its ConfigMap, as a volume shows it, and returns the working directory."""
        (mount,) = container["volumeMounts"]
        (volume,) = (volume for volume in spec["volumes"] if volume["name"] == mount["name"])
        source: dict[str, Any] = volume["configMap"]
        metadata = {"name": source["name"], "namespace": space}
        texts = (self._api.get({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}) or {})["data"]
        code = self._folder / "code"
        for item in source["items"]:
            path = code / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[item["key"]])
        return code
