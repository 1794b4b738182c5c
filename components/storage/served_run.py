"""The finished run that a stack serves: looked up by `up`, and mounted into the servers."""

from typing import Any, Final

import pulumi

from components.base.component import Args, Component
from components.finished_run import FinishedRun

# The sidecar that reads the bucket. It streams files and caches nothing.
_SIDECAR: Final = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}
# The files belong to the user of the pods.
MOUNT_OPTIONS: Final = "implicit-dirs,uid=1000,gid=1000"
SIDECAR_DRIVER: Final = "gcsfuse.csi.storage.gke.io"


class ServedRunArgs(Args):
    """Arguments of `ServedRun`: see `FinishedRun`."""

    project: str
    bucket: pulumi.Input[str]
    run: str
    beside: str = ""
    adapters: int = 1
    serve_not_good: bool
    memory_gb: int
    gpus: int
    max_length: int
    users_length: int
    keep: bool
    chips: str = ""
    any_model: bool = False


class ServedRun(Component[ServedRunArgs]):
    """A run that is complete and good. `pulumi up` fails here if the run must not be served.

    Attributes:
        lookup: What the look-up found. A resource that must wait for its success depends on it.
    """

    def _declare(self, name: str, args: ServedRunArgs) -> None:
        self.lookup = FinishedRun(f"{name}-run", vars(args), pulumi.ResourceOptions(parent=self))

    def mounted_at(self, path: str, volume: str = "run") -> dict[str, Any]:
        """Values for the holes of a manifest whose pods read the run's folder as files.

        The holes are `podAnnotations`, in the metadata, and the list items `mounts` and `volumes`.

        Args:
            path: The folder in the containers.
            volume: Name of the volume in the pod.
        """
        options = pulumi.Output.concat(MOUNT_OPTIONS, ",only-dir=", self.lookup.folder)
        attributes = {"bucketName": self.lookup.bucket, "mountOptions": options}
        csi = {"driver": SIDECAR_DRIVER, "readOnly": True, "volumeAttributes": attributes}
        limits = {f"gke-gcsfuse/{resource}-limit": size for resource, size in _SIDECAR.items()}
        return {
            # With them GKE adds the sidecar to a pod.
            "podAnnotations": {"annotations": {"gke-gcsfuse/volumes": "true", **limits}},
            "mounts": [{"name": volume, "mountPath": path, "readOnly": True}],
            "volumes": [{"name": volume, "csi": csi}],
        }
