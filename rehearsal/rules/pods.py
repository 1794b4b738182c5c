"""Rules of pods that the schema cannot say.

Source: the API server's validation (pkg/apis/core/validation).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.inputs import given, objects, texts
from cloud.machines import TOPOLOGY_LABEL, TPU_LABEL
from cloud.quantity import quantity
from cloud.record import Problem

DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
GCS_FUSE: Final = "gcsfuse.csi.storage.gke.io"
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")


def problems(path: str, template: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of one pod template."""
    spec = f"{path}.spec".removeprefix(".")
    volumes = list(texts(template, "spec.volumes[].name"))
    for name in sorted({name for name in volumes if volumes.count(name) > 1}):
        yield f"{spec}.volumes", f"two volumes are named {name!r}"
    yield from _mounted_buckets(path, template)
    for group in ("containers", "initContainers"):
        for container in objects(template, f"spec.{group}[]"):
            yield from _container(f"{spec}.{group}", container, volumes)


def tpu_selector(template: Mapping[str, Any]) -> dict[str, str]:
    """What a pod of the template selects among nodes with TPU chips."""
    selector = next(objects(template, "spec.nodeSelector"), {})
    return {label: str(selector[label]) for label in (TPU_LABEL, TOPOLOGY_LABEL) if label in selector}


def mounts_buckets(template: Mapping[str, Any]) -> bool:
    """Whether a pod of the template has a volume that is a bucket."""
    return GCS_FUSE in texts(template, "spec.volumes[].csi.driver")


def _mounted_buckets(path: str, template: Mapping[str, Any]) -> Iterator[Problem]:
    """The driver's webhook adds its sidecar to pods with the annotation; others never get their volume.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup
    """
    annotations = next(objects(template, "metadata.annotations"), {})
    if mounts_buckets(template) and annotations.get("gke-gcsfuse/volumes") != "true":
        where = f"{path}.metadata.annotations".removeprefix(".")
        yield where, 'a volume of GCS FUSE needs gke-gcsfuse/volumes: "true"'


def job(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """A job's pods do not start again for ever; an indexed job has a number of completions."""
    policies = list(texts(inputs, "spec.template.spec.restartPolicy"))
    if policies not in (["Never"], ["OnFailure"]):
        yield "spec.template.spec.restartPolicy", 'required: "OnFailure" or "Never"'
    if "Indexed" in texts(inputs, "spec.completionMode") and not given(inputs, "spec.completions"):
        yield "spec.completions", "required with completionMode Indexed"


def _container(path: str, container: Mapping[str, Any], volumes: list[str]) -> Iterator[Problem]:
    name = container.get("name")
    here = f"{path}[{name}]"
    if isinstance(name, str) and not DNS_LABEL.fullmatch(name):
        yield path, f"{name!r} is not a valid container name"
    for mount in texts(container, "volumeMounts[].name"):
        if mount not in volumes:
            yield f"{here}.volumeMounts", f"volume {mount!r} not found"
    paths = list(texts(container, "volumeMounts[].mountPath"))
    for mount_path in sorted({found for found in paths if paths.count(found) > 1}):
        yield f"{here}.volumeMounts", f"two volumes are mounted at {mount_path}"
    yield from _resources(f"{here}.resources", container)


def _resources(path: str, container: Mapping[str, Any]) -> Iterator[Problem]:
    """Requests do not exceed limits; of devices, such as nvidia.com/gpu, they are equal."""
    requests, limits = (next(objects(container, f"resources.{key}"), {}) for key in ("requests", "limits"))
    for name in {**requests, **limits}:
        request, limit = quantity(requests.get(name)), quantity(limits.get(name))
        is_device = name not in _NATIVE and "/" in name
        if is_device and (limit is None or request not in (None, limit)):
            reason = "limit must be set for non overcommitable resources, equal to the request"
            yield f"{path}.limits", f"{name}: {reason}"
        elif request is not None and limit is not None and request > limit:
            yield f"{path}.requests", f"{name}: {requests[name]} is more than the limit {limits[name]}"
