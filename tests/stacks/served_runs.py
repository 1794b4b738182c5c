"""The servers of a rehearsal, and the runs in its bucket."""

from pathlib import Path
from typing import Any

from rehearsal.session import Rehearsal

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def run_in(rehearsal: Rehearsal, path: str) -> Path:
    assert rehearsal.buckets
    return rehearsal.buckets / path


def server(rehearsal: Rehearsal) -> dict[str, Any]:
    (deployment,) = rehearsal.cloud.of_type(DEPLOYMENT)
    return deployment.inputs["spec"]


def arguments(rehearsal: Rehearsal) -> list[str]:
    return server(rehearsal)["template"]["spec"]["containers"][0]["args"]


def mounted(rehearsal: Rehearsal) -> str:
    """The folder of the bucket that the servers see."""
    volumes = server(rehearsal)["template"]["spec"]["volumes"]
    (attributes,) = [volume["csi"]["volumeAttributes"] for volume in volumes if "csi" in volume]
    return f"{attributes['bucketName']}/{attributes['mountOptions'].partition('only-dir=')[2]}"
