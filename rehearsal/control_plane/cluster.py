"""A local Kubernetes control plane: the real one, with simulated nodes.

etcd, API server, controller manager and scheduler are Kubernetes' own and listen on the loopback
interface alone. kwok plays the nodes' kubelets. No container, image, GPU or network policy is behind it.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, Self

import yaml

from engine import go_build
from engine.go_build import Log
from rehearsal.control_plane import programs
from rehearsal.control_plane.api import Api, Object, until
from rehearsal.control_plane.kueue_release import KueueRelease, establish
from rehearsal.control_plane.kwokctl import Kwokctl

_TIMEOUT: Final = 60.0
# A port may be taken between being found and being used.
_TRIES: Final = 3
# Pods are rejected until the controller manager has made their namespace's service account.
_ACCOUNT: Final[Object] = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "default", "namespace": "default"},
}


class ControlPlane:
    """A control plane that runs as long as the context.

    Args:
        log: Told what takes long, such as building the programs.

    Attributes:
        api: Its API server.
        kueue: The release of Kueue; to be installed.
        kubeconfig: Path of the administrator's kubeconfig.
    """

    api: Api
    kueue: KueueRelease
    kubeconfig: Path

    def __init__(self, log: Log = print) -> None:
        self._log = log

    def __enter__(self) -> Self:
        """Starts everything.

        Raises:
            RehearsalError: With the end of the log of what did not start.
        """
        go_build.build(programs.MODULES, self._log)
        for remaining in reversed(range(_TRIES)):
            self._folder = Path(tempfile.mkdtemp(prefix="control-plane-"))
            self._kwokctl = Kwokctl(self._folder)
            try:
                self._start()
            except BaseException as error:
                self._end()
                if not remaining or "address already in use" not in str(error):
                    raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        """Ends every process and removes their files."""
        self.kueue.stop()
        self._end()

    def _start(self) -> None:
        self._kwokctl.create()
        self.kubeconfig = self._kwokctl.kubeconfig
        self.api = Api(self.kubeconfig)
        self.kueue = KueueRelease(self.api, self._folder / "kueue", self.kubeconfig)
        until(lambda: "the control plane to be ready", self._is_ready, _TIMEOUT)
        self._install_ray()

    def _install_ray(self) -> None:
        """Installs KubeRay's CRDs, as GKE's add-on does, but no description: these cost seconds."""
        texts = [go_build.file(path).read_text() for path in programs.KUBERAY.files.values()]
        trees = [yaml.load(text, Loader=yaml.CSafeLoader) for text in texts]
        for tree in trees:
            versions = [_without_descriptions(each) for each in tree["spec"]["versions"] if each["storage"]]
            self.api.create({**tree, "spec": {**tree["spec"], "versions": versions}})
        for tree in trees:
            establish(self.api, tree)

    def _is_ready(self) -> bool:
        self._kwokctl.check()
        return self.api.is_ready() and self.api.get(_ACCOUNT) is not None

    def _end(self) -> None:
        try:
            self._kwokctl.delete()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def _without_descriptions(schema: Any) -> Any:
    """A copy of a schema that says the same in fewer words; a property may itself be called description."""
    if isinstance(schema, dict):
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(item) for item in schema] if isinstance(schema, list) else schema
