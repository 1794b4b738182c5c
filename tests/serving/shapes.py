"""The stacks that serve: their containers as the program declares them, on tiny models."""

import base64
import json
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cloud.services.cloudrun import SERVICE
from rehearsal.control_plane.api import Api, Object
from rehearsal.fakes.cloud import BUCKET
from rehearsal.pods.pod import Pod
from rehearsal.running_pods.instance import Instance
from rehearsal.running_pods.surroundings import Surroundings
from rehearsal.session import Rehearsal

# The run of which only the adapter is served.
ADAPTER: Final = "sql"
_RUN: Final = f"rehearsal-runs/{ADAPTER}"
# Its base model, by its name on the Hub and the commit.
_BASE, _COMMIT = "google/gemma-3-4b-it", "0" * 40
# The model of the Hub that l4-kueue serves from its copy in the bucket.
_COPIED: Final = "google/gemma-3-12b-it"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A stack that serves.

    Args:
        stack: Its name.
        settings: Settings over those of its file.
        run: The run of tuned.py that is served, `emoji` or `sql`.
        form: What the recipe puts before a question, and `ask` does too. None if the whole prompt is asked as
            it is.
        adapter: The name under which the run's adapter is served beside its base. Empty if the merged model
            is served.
        start: Starts the server in these surroundings. The last argument is the folder of the run.
        place: Puts the run, the last argument, into the folder of all buckets before the stack is created.
    """

    stack: str
    settings: Mapping[str, str]
    run: str
    form: str | None
    adapter: str
    start: Callable[[Rehearsal, Surroundings, Path], Pod]
    place: Callable[[Path, Path], None] = lambda _buckets, _run: None


def _on_cloud_run(rehearsal: Rehearsal, around: Surroundings, run: Path) -> Pod:
    """An instance of the service. The run is in the bucket's folder that it mounts."""
    (service,) = rehearsal.cloud.of_type(SERVICE.type)
    template = service.inputs["template"]
    (volume,) = template["volumes"]
    options = dict(option.partition("=")[::2] for option in volume["gcs"]["mountOptions"])
    shutil.copytree(run, around.buckets.folder / volume["gcs"]["bucket"] / options["only-dir"])
    port = template["containers"][0]["ports"]["containerPort"]
    return Instance("server", template, {"PORT": port}, "Always", rehearsal.cloud, around.machine)


def _place_adapter(buckets: Path, run: Path) -> None:
    """Puts a run into a bucket as one that has published only its adapter, with its base model beside it."""
    placed = buckets / _RUN
    base = placed.parent / f"weights/{_BASE}/{_COMMIT}"
    shutil.copytree(run.parent / f"hub/models/{_BASE}", base / "model")
    (base / "COMPLETE.json").write_text("{}")
    shutil.copytree(run, placed)
    shutil.rmtree(placed / "model")
    for name in ("run.json", "COMPLETE.json"):
        record = json.loads((placed / name).read_text())
        if "recipe" in record:
            record["recipe"]["model"]["name"] = _BASE
            record["commits"] = {"model": _COMMIT}
        record.pop("model", None)
        (placed / name).write_text(json.dumps(record))


def _from_a_copy(rehearsal: Rehearsal, around: Surroundings, run: Path) -> Pod:
    """A pod of the Deployment that streams its weights from the bucket, where the Job would have put them."""
    (bucket,) = [item.id for item in rehearsal.cloud.of_type(BUCKET)]
    shutil.copytree(run / "model", around.buckets.folder / bucket / f"weights/{_COPIED}/main/model")
    return _on_gke(rehearsal, around, run)


def _on_gke(rehearsal: Rehearsal, around: Surroundings, _run: Path) -> Pod:
    """A pod of the Deployment. It reads the run from the bucket that it mounts."""
    (deployment,) = rehearsal.cloud.of_type("kubernetes:apps/v1:Deployment")
    template = deployment.inputs["spec"]["template"]
    names = {"name": "server", "namespace": deployment.inputs["metadata"]["namespace"]}
    metadata = {**template["metadata"], **names, "uid": uuid.uuid4().hex}
    account = f"{names['namespace']}/{template['spec']['serviceAccountName']}"
    around.account_of = lambda _address: account
    pod = Pod(_Secrets(rehearsal), {"metadata": metadata, "spec": template["spec"]}, around.machine)
    pod.connected.set()  # network policies are tested elsewhere
    return pod


class _Secrets(Api):
    """The part of an API server that a pod needs, from the fake cloud."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._cloud = rehearsal.cloud

    def get(self, tree: Mapping[str, Any]) -> Object | None:
        for secret in self._cloud.of_type("kubernetes:core/v1:Secret"):
            if secret.inputs["metadata"]["name"] == tree["metadata"]["name"]:
                texts = secret.inputs["stringData"]
                return {
                    "data": {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
                }
        return None

    def patch(self, tree: Mapping[str, Any], change: Mapping[str, Any], subresource: str = "") -> Object:
        return {**tree, **change}

    def delete(self, tree: Mapping[str, Any], *, ended: bool = False) -> None:
        """Does nothing: the test knows that the pod has ended."""


def served_name(pod: Pod) -> str:
    """The model's name by the command line of its server."""
    container = pod.tree["spec"]["containers"][0]
    words = [*container["command"], *(container.get("args") or ())]
    words = [part for word in words for part in word.split("=", 1)]
    before = "--served-model-name" if "--served-model-name" in words else "serve"
    return words[words.index(before) + 1]


SHAPES: Final = {
    shape.stack: shape
    for shape in (
        Shape(
            stack="cloudrun-vllm",
            settings={},
            run="emoji",
            form="Translate to emoji: ",
            adapter="",
            start=_on_cloud_run,
        ),
        Shape(
            stack="serve",
            settings={"servedRun": f"gs://{_RUN}"},
            run="sql",
            form=None,
            adapter=ADAPTER,
            start=_on_gke,
            place=_place_adapter,
        ),
        Shape(
            stack="l4-kueue",
            settings={},
            run="sql",
            form=None,
            adapter="",
            start=_from_a_copy,
        ),
    )
}
