"""A container of Cloud Run that runs like a pod: a job's task or a service's instance."""

import base64
import uuid
from collections.abc import Mapping
from typing import Any, Final

from cloud.services.secretmanager import SECRET, VERSION
from rehearsal.control_plane.api import Api, Object
from rehearsal.fakes.cloud import FakeCloud
from rehearsal.pods.pod import Machine, Pod
from rehearsal.rules.pods import GCS_FUSE

# https://docs.cloud.google.com/run/docs/container-contract
_GRACE: Final = 10.0
_SAME: Final = ("image", "args", "workingDir", "startupProbe", "livenessProbe", "volumeMounts")


class Instance(Pod):
    """An instance. The constructor starts it.

    Args:
        name: Its name.
        template: The template that the program declares.
        variables: Environment variables that Cloud Run adds.
        policy: When it starts again, as a pod's `restartPolicy`.
        cloud: The fake cloud, which has its secrets.
        machine: The machine that it runs on.
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
            "containers": [_container(container, variables) for container in template["containers"]],
            "volumes": [_volume(volume) for volume in template.get("volumes") or ()],
            "restartPolicy": policy,
            "serviceAccountName": template["serviceAccount"],
            "terminationGracePeriodSeconds": _GRACE,
        }
        metadata = {"name": name, "namespace": "", "uid": uuid.uuid4().hex}
        super().__init__(_Secrets(cloud), {"metadata": metadata, "spec": spec}, machine)
        self.connected.set()  # network policies do not apply to it

    @property
    def status(self) -> Object:
        """The status of its container, empty before the start."""
        return next(iter((self.tree.get("status") or {}).get("containerStatuses") or ()), {})

    @property
    def start_failure(self) -> str:
        """Why it cannot be started, empty if it can."""
        return (self.status.get("state", {}).get("waiting") or {}).get("message", "")

    def log(self) -> str:
        """Its output."""
        return self._machine.log(self.tree, self.tree["spec"]["containers"][0]["name"]).read_text()

    def end(self) -> None:
        """Stops it, and kills it after Cloud Run's grace period."""
        self.leave(_GRACE)
        self.thread.join()
        self.close()


class _Secrets(Api):
    """The part of an API server that a pod needs: Secrets, here from Secret Manager. It keeps no status."""

    def __init__(self, cloud: FakeCloud) -> None:
        self._cloud = cloud

    def get(self, tree: Mapping[str, Any]) -> Object | None:
        secret = self._cloud.named(SECRET.type, tree["metadata"]["name"])
        versions = self._cloud.of_type(VERSION.type)
        own = [version for version in versions if secret and secret.is_named(version.inputs["secret"])]
        texts = {version.outputs["version"]: version.inputs["secretData"] for version in own}
        return {"data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}}

    def patch(self, tree: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        return {**tree, **change}

    def delete(self, tree: Mapping[str, Any], *, ended: bool = False) -> None:
        """Does nothing: `CloudRun` knows that the instance has ended."""


def _container(container: Object, variables: Mapping[str, object]) -> Object:
    """A container of Cloud Run in the form of Kubernetes."""
    env: list[Object] = [{"name": name, "value": str(value)} for name, value in variables.items()]
    env += map(_variable, container.get("envs") or ())
    same = {key: container[key] for key in _SAME if key in container}
    return {"name": container.get("name", "main"), "command": container.get("commands"), "env": env, **same}


def _variable(variable: Object) -> Object:
    if not (source := variable.get("valueSource")):
        return variable
    key = {"name": source["secretKeyRef"]["secret"], "key": source["secretKeyRef"]["version"]}
    return {"name": variable["name"], "valueFrom": {"secretKeyRef": key}}


def _volume(volume: Object) -> Object:
    if not (bucket := volume.get("gcs")):
        return volume
    options = ",".join(bucket.get("mountOptions") or ())
    attributes = {"bucketName": bucket["bucket"], "mountOptions": options}
    mount = {"readOnly": bucket.get("readOnly"), "volumeAttributes": attributes}
    return {"name": volume["name"], "csi": {"driver": GCS_FUSE, **mount}}
