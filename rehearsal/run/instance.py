"""A container of Cloud Run, a job's task or a service's instance, that is run as a pod's are."""

import base64
import uuid
from collections.abc import Mapping
from typing import Any, Final

from cloud.secretmanager import SECRET, VERSION
from rehearsal.control_plane.api import Api, Object
from rehearsal.fake_cloud import FakeCloud
from rehearsal.pods.pod import Machine, Pod
from rehearsal.rules.pods import GCS_FUSE

# https://docs.cloud.google.com/run/docs/container-contract
_GRACE: Final = 10.0
_SAME: Final = ("image", "args", "workingDir", "startupProbe", "livenessProbe", "volumeMounts")


class Instance(Pod):
    """An instance, from its start until it has ended.

    Args:
        name: Its name.
        template: What the program declares for it.
        variables: What Cloud Run adds to its environment.
        policy: Whether it is started again, as a pod's `restartPolicy`.
        cloud: Where its secrets are.
        machine: What it finds.
    """

    def __init__(
        self,
        name: str,
        template: Object,
        variables: Mapping[str, object],
        policy: str,
        cloud: FakeCloud,
        machine: Machine,
    ) -> None:
        spec = {
            "containers": [_container(each, variables) for each in template["containers"]],
            "volumes": [_volume(each) for each in template.get("volumes") or ()],
            "restartPolicy": policy,
            "serviceAccountName": template["serviceAccount"],
            "terminationGracePeriodSeconds": _GRACE,
        }
        metadata = {"name": name, "namespace": "", "uid": uuid.uuid4().hex}
        super().__init__(_Secrets(cloud), {"metadata": metadata, "spec": spec}, machine)
        self.connected.set()  # no network policy is about it

    @property
    def status(self) -> Object:
        """Of its container; empty at first."""
        return next(iter((self.tree.get("status") or {}).get("containerStatuses") or ()), {})

    @property
    def misfit(self) -> str:
        """Why it cannot be started at all; empty when it can."""
        return (self.status.get("state", {}).get("waiting") or {}).get("message", "")

    def log(self) -> str:
        """What it has printed."""
        return self._machine.log(self.tree, self.tree["spec"]["containers"][0]["name"]).read_text()

    def end(self) -> None:
        """Asks it to end, and ends it after the time that Cloud Run gives it."""
        self.leave(_GRACE)
        self.thread.join()
        self.close()


class _Secrets(Api):
    """What a pod wants of an API server: Secrets, from Secret Manager. Its status it keeps itself."""

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud

    def get(self, tree: Mapping[str, Any]) -> Object | None:
        secret = self._cloud.named(SECRET.type, tree["metadata"]["name"])
        versions = self._cloud.of_type(VERSION.type)
        own = [each for each in versions if secret and secret.is_named(each.inputs["secret"])]
        texts = {each.outputs["version"]: each.inputs["secretData"] for each in own}
        return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}}

    def patch(self, tree: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        return {**tree, **change}

    def delete(self, tree: Mapping[str, Any], *, ended: bool = False) -> None:
        """Nothing: whoever has started it knows."""


def _container(container: Object, variables: Mapping[str, object]) -> Object:
    """As Kubernetes has it."""
    env: list[Object] = [{"name": name, "value": str(value)} for name, value in variables.items()]
    for variable in container.get("envs") or ():
        if source := variable.get("valueSource"):
            key = {"name": source["secretKeyRef"]["secret"], "key": source["secretKeyRef"]["version"]}
            env.append({"name": variable["name"], "valueFrom": {"secretKeyRef": key}})
        else:
            env.append(variable)
    same = {key: container[key] for key in _SAME if key in container}
    return {"name": container.get("name", "main"), "command": container.get("commands"), "env": env, **same}


def _volume(volume: Object) -> Object:
    if not (said := volume.get("gcs")):
        return volume
    attributes = {"bucketName": said["bucket"], "mountOptions": ",".join(said.get("mountOptions") or ())}
    mount = {"readOnly": said.get("readOnly"), "volumeAttributes": attributes}
    return {"name": volume["name"], "csi": {"driver": GCS_FUSE, **mount}}
