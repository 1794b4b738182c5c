"""GKE's rules for pods. The API server checks all others: `make rehearse-cluster`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cloud.accelerators import TOPOLOGY_LABEL, TPU_LABEL
from cloud.inputs import objects, texts
from cloud.record import Problem

GCS_FUSE: Final = "gcsfuse.csi.storage.gke.io"


def tpu_selector(template: Mapping[str, Any]) -> dict[str, str]:
    """The labels of nodes with TPU chips that a pod of the template selects."""
    selector = next(objects(template, "spec.nodeSelector"), {})
    return {label: str(selector[label]) for label in (TPU_LABEL, TOPOLOGY_LABEL) if label in selector}


def mounts_buckets(template: Mapping[str, Any]) -> bool:
    """Whether a pod of the template mounts a bucket."""
    return GCS_FUSE in texts(template, "spec.volumes[].csi.driver")


def problems(path: str, template: Mapping[str, Any]) -> Iterator[Problem]:
    """A problem if a pod mounts a bucket without the annotation that makes GKE add the driver's sidecar.

    https://docs.cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-setup
    """
    annotations = next(objects(template, "metadata.annotations"), {})
    if mounts_buckets(template) and annotations.get("gke-gcsfuse/volumes") != "true":
        where = f"{path}.metadata.annotations".removeprefix(".")
        yield where, 'a volume of GCS FUSE needs gke-gcsfuse/volumes: "true"'
