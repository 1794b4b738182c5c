"""The surroundings of pods: images, buckets, a Hub and a metadata server, with their addresses."""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from cloud.machines import TPU_LABEL
from cloud.slices import slice_of
from engine.go_build import Log
from engine.project import ROOT
from rehearsal.control_plane.api import Object
from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import BUCKET, FakeCloud
from rehearsal.pods.image import Image, lay_out
from rehearsal.pods.network import METADATA, OUTSIDE, STORAGE
from rehearsal.pods.pod import Machine
from rehearsal.running_pods import tpu_webhook
from rehearsal.stand_ins.answers import token_of
from rehearsal.stand_ins.bucket import Buckets
from rehearsal.stand_ins.hub import Hub
from rehearsal.stand_ins.metadata import MetadataServer

_CHANGES: Final = Path(__file__).with_name("on_a_cpu")
_MOUNTED: Final = "/.host/on_a_cpu"
# vLLM built for CPUs, and a server that only answers probes.
REAL_SERVER: Final = ROOT / "rehearsal/running_pods/vllm-cpu"
_SMALL_SERVER: Final = ROOT / "rehearsal/running_pods/vllm"
# Folders with Dockerfiles, by the last part of an image's name.
_IMAGES: Final = {
    "finetune": ROOT / "workloads/finetune",
    "maxtext": ROOT / "workloads/maxtext",
    "vllm-openai": _SMALL_SERVER,
}
_PROJECT, _EMAIL = "rehearsal-project", "default"
_MEMBER: Final = "gcp:storage/bucketIAMMember:BucketIAMMember"
_MAKE_MODELS: Final = (ROOT / ".venv-training/bin/python", "-m", "rehearsal.running_pods.tiny")


class Surroundings:
    """The servers and folders, in the network of `network.enter`. The object is a context.

    Args:
        models: The Hub's repositories, `models/ORG/NAME` and `datasets/ORG/NAME`. Missing ones are made.
        log: Receives a line before a step that takes long.
        real_server: Whether vLLM is the real one, which takes minutes to start, and not the small server.

    Attributes:
        cloud: The fake cloud. Without one, every bucket refuses access.
        account_of: The service account of a pod by the pod's address. It is `NAMESPACE/SERVICE_ACCOUNT`, or
            an account of Google's.
        images: Names of images that this machine has, by the references that stand for them.
        hub: The Hub.
        buckets: Cloud Storage.
        folder: Folder with the pods' logs, in `logs`, and the buckets, in `buckets`.
    """

    def __init__(self, models: Path, log: Log = print, *, real_server: bool = False) -> None:
        self._models, self._log = models, log
        self._sources = {**_IMAGES, "vllm-openai": REAL_SERVER} if real_server else _IMAGES
        self._lock = threading.Lock()
        self._images: dict[str, Image] = {}
        self.images: Mapping[str, str] = {}
        self.cloud: FakeCloud | None = None
        self.account_of: Callable[[str], str | None] = lambda _address: None

    def __enter__(self) -> Self:
        """Starts the servers."""
        if not self._models.exists():
            self._log("making tiny models and data sets, a quarter of a minute")
            # Torch leaves a folder among the temporary files.
            variables = {**os.environ, "TMPDIR": str(self._models.parent)}
            subprocess.run(
                [*_MAKE_MODELS, self._models], check=True, stdin=subprocess.DEVNULL, env=variables, cwd=ROOT
            )
        with ExitStack() as started:
            self.folder = Path(tempfile.mkdtemp(prefix="pods-"))
            started.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self.hub = Hub()
            self.buckets = Buckets(self.folder / "buckets", self._exists)
            self.buckets.authorize = self._refuses
            # Google's C++ client, by which vLLM streams weights, sends no token to a stand-in.
            self.buckets.token_of = lambda request: (
                token_of(request) or self.account_of(request.client_address[0])
            )
            metadata = MetadataServer(lambda address: self.account_of(address), _PROJECT, _EMAIL)
            # Network policies admit these ports alone. The servers of the real addresses have TLS.
            self.hub.host, self.hub.port = OUTSIDE, 443
            self.buckets.host, self.buckets.port = STORAGE, 443
            metadata.host, metadata.port = METADATA, 80
            for server in (self.hub, self.buckets, metadata):
                started.enter_context(server)
            for kind, repository in (("models", self.hub.model), ("datasets", self.hub.data_set)):
                for path in (self._models / kind).glob("*/*"):
                    repository(f"{path.parent.name}/{path.name}").push(path)
            self._started = started.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the servers and removes the pods' files."""
        self._started.close()

    def clear(self) -> None:
        """Removes all buckets with their project."""
        self.cloud = None
        for bucket in self.buckets.folder.glob("[!.]*"):
            shutil.rmtree(bucket)

    @property
    def machine(self) -> Machine:
        """The machine of all pods."""
        return Machine(
            image=self._image,
            bucket=self.buckets.folder.joinpath,
            environment=self._environment,
            admit=tpu_webhook.admitted,
            mounts={_MOUNTED: _CHANGES},
            folder=self.folder,
        )

    def _image(self, reference: str) -> Image:
        last_part = reference.rpartition("/")[2].partition("@")[0].partition(":")[0]
        name = self.images.get(reference, last_part)
        if name not in self._sources:
            raise RehearsalError(f"no image {reference}: pods run with images of {', '.join(self._sources)}")
        with self._lock:  # pods start at the same time
            if name not in self._images:
                if name == "vllm-openai":
                    self._log(self._server())
                self._images[name] = lay_out(self._sources[name], self.folder / "images")
        return self._images[name]

    def _server(self) -> str:
        """Which server runs in place of vLLM's image."""
        if self._sources["vllm-openai"] == REAL_SERVER:
            return "vLLM is the real one, built for CPUs: .venv-serving"
        return "vLLM is a small server that answers the probes. For the real one: make .venv-serving/.ready"

    def _environment(self, pod: Object, own: Mapping[str, str]) -> dict[str, str]:
        return {
            **_slice_of(pod),
            "HF_ENDPOINT": self.hub.address,
            "CLOUD_STORAGE_EMULATOR_ENDPOINT": self.buckets.address,
            "STORAGE_EMULATOR_HOST": self.buckets.address,
            "GCE_METADATA_ROOT": METADATA,
            "GCE_METADATA_HOST": METADATA,
            "GCE_METADATA_IP": METADATA,
            "PYTHONPATH": f"{_MOUNTED}:{own.get('PYTHONPATH', '')}".rstrip(":"),
        }

    def _exists(self, bucket: str) -> bool:
        return self.cloud is not None and self.cloud.named(BUCKET, bucket) is not None

    def _refuses(self, bucket: str, token: str | None) -> int | None:
        """401 if the token names no account, 403 if the account has no role on the bucket, else None."""
        if self.cloud is None or not self._exists(bucket) or not token:
            return 401
        space, slash, account = token.partition("/")
        principal = f"/ns/{space}/sa/{account}" if slash else f"serviceAccount:{token}"
        grants = [grant.inputs for grant in self.cloud.of_type(_MEMBER)]
        members = [grant["member"] for grant in grants if grant["bucket"] == bucket]
        if not any(member.endswith(principal) for member in members):
            return 403
        self.cloud.written_buckets.add(bucket)
        return None


def _slice_of(pod: Object) -> dict[str, str]:
    """Variables of GKE's device plugin for a host of a TPU slice that Ray reads. `tpu_webhook` has others."""
    selector = pod["spec"].get("nodeSelector") or {}
    if TPU_LABEL not in selector:
        return {}
    tpu = slice_of(selector)
    return {"TPU_ACCELERATOR_TYPE": tpu.accelerator_type, "TPU_TOPOLOGY": tpu.topology}
