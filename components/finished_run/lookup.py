"""Reads from a bucket whether a training run is finished, and what a server must know about it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from typing import Any, Final, Protocol

from cloud.client import TooLargeError
from cloud.credentials import CredentialSettings
from components.base.bounded_json import parse
from components.base.calls import NO_RETRY, CallError, Calls, RetryLimit, google_api
from components.base.clock import Clock, Interrupted
from components.base.once import OnceError
from components.finished_run import limits

# Files of a run: workloads/finetune/storage/checkpoint.py and workloads/maxtext/maxtext_driver/run_folder.py.
_RECORD: Final = "run.json"
_MARKER: Final = "COMPLETE.json"
_EXPORT: Final = "hugging-face"
_TEMPLATE: Final = "chat_template.jinja"
_WEIGHTS: Final = ".safetensors"
# Part of the GPU memory that vLLM fills with weights, keys and values. The rest of a server's memory is for
# activations. https://docs.vllm.ai/en/stable/configuration/engine_args/
_FILLED: Final = 0.9
# GB for the keys and values of a few requests.
_CACHE_GB: Final = 2
# Names and revisions of models. They become parts of addresses and of commands that people copy.
_NAME: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_REVISION: Final = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")
# What a file raises that somebody else has written into the bucket.
_ODD: Final = (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError)
# Characters of a reason, a part of which may come from the bucket.
_LONGEST: Final = 1000
_RESTORE: Final = "restore the files, or train again"
_NOT_GOOD: Final = "set serveNotGood to true if it is to be served all the same"


class RunError(OnceError):
    """A run must not be served.

    Attributes:
        reason: What is wrong with it.
        remedy: What to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        # A run's own words may have several lines.
        self.reason, self.remedy = " ".join(reason.split())[:_LONGEST], remedy
        super().__init__(f"{self.reason}: {remedy}")


class RunFiles(Protocol):
    """The files of a run in a bucket.

    Attributes:
        uri: Address of the run's folder.
    """

    uri: str

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if there is no such file."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The sizes in bytes of the files in a folder of the run, by the file's name."""

    def in_folder(self, folder: str) -> "RunFiles":
        """The files in another folder of the bucket, read in the same way."""


def look_up(
    props: Mapping[str, Any], endpoint: str | None, credentials: CredentialSettings, clock: Clock
) -> dict[str, Any]:
    """What is to be served of a run: see `result_of`.

    Args:
        props: The inputs of a `FinishedRun`.
        endpoint: See `google_api`.

    Raises:
        OnceError: If the run must not be served, or its files cannot be read.
    """
    return result_of(props, _Bucket(props, endpoint, credentials, clock))


def result_of(props: Mapping[str, Any], files: RunFiles) -> dict[str, Any]:
    """The results of a `components.finished_run.FinishedRun` with these inputs.

    Raises:
        RunError: If the run is missing, unfinished, not good, not whole, too large for the server, or if
            vLLM would not start with it.
    """
    record = _json(files, _RECORD)
    if record is None:
        raise RunError(f"there is no run {files.uri}", "check its name with `gcloud storage ls`")
    complete = _json(files, _MARKER)
    if complete is None:
        remedy = "run `pulumi up` again when it is, or name a finished run"
        raise RunError(f"run {files.uri} is not finished", remedy)
    problem = complete.get("not_good")
    if problem and not props["serve_not_good"]:
        raise RunError(f"run {files.uri} is not good, {problem}", _NOT_GOOD)
    try:
        result = {**_served(props, files, record, complete), **_question_form(record)}
        if props["beside"]:
            _check_neighbour(props, files, result)
        return result
    except _ODD as error:
        what = f"{_RECORD}, {_MARKER} or a configuration of run {files.uri}"
        reason = f"{what} is not what a training writes ({type(error).__name__})"
        raise RunError(reason, _RESTORE) from None


def _served(
    props: Mapping[str, Any], files: RunFiles, record: Mapping[str, Any], complete: Mapping[str, Any]
) -> dict[str, Any]:
    if complete.get("model"):
        return _whole_model(props, files, "model", complete["model"], bytes_per_weight=2)
    if complete.get("adapter"):
        return _adapter(props, files, record, complete)
    # MaxText exports float32, and vLLM loads it as bf16.
    return _whole_model(props, files, _EXPORT, None, bytes_per_weight=4)


def _question_form(record: Mapping[str, Any]) -> dict[str, str | bool]:
    """How the rows asked that the run was trained on. MaxText trains on texts, which ask nothing."""
    recipe = record.get("recipe", {})
    data = recipe.get("data") or {}
    form = {key: data.get(key) or "" for key in ("system", "prompt")}
    if not all(isinstance(text, str) for text in form.values()):
        raise TypeError("no text")
    texts = bool(data.get("text")) or "maxtext" in recipe
    return form | {"pictures": bool(data.get("image")), "texts": texts}


def _check_neighbour(props: Mapping[str, Any], files: RunFiles, result: Mapping[str, Any]) -> None:
    """Raises RunError if the servers of another run cannot have this run's adapter too."""
    neighbour = files.in_folder(props["beside"])
    other: dict[str, Any] = {}
    # What is wrong with the other run, its own look-up says.
    with suppress(RunError, *_ODD):
        other = result_of({**props, "run": props["beside"], "beside": ""}, neighbour)
    if not other:
        return
    elsewhere = "remove it from moreRuns, and serve it by a stack of its own"
    for served, place in ((result, files), (other, neighbour)):
        if not served["base"]:
            reason = f"run {place.uri} has a merged model, and a server has several runs only as adapters"
            raise RunError(reason, "train it with `training.result: adapter`, or empty moreRuns")
    this, that = result["base_folder"], other["base_folder"]
    if this != that:
        raise RunError(
            f"run {files.uri} needs the base model in {this}, and run {neighbour.uri} the one in {that}",
            elsewhere,
        )
    if _template(files, result) != _template(neighbour, other):
        raise RunError(
            f"run {files.uri} has another chat template than run {neighbour.uri}, and a server has one",
            elsewhere,
        )
    if result["pictures"] != other["pictures"]:
        raise RunError(
            f"of the runs {files.uri} and {neighbour.uri} only one has pictures in its rows, and a server "
            "gives the chat template one form of contents",
            elsewhere,
        )


def _template(files: RunFiles, result: Mapping[str, Any]) -> bytes | None:
    """The chat template of an adapter, None for that of its base."""
    return files.read(f"{result['kind']}/{result['template']}") if result["template"] else None


def _json(files: RunFiles, name: str) -> dict[str, Any] | None:
    content = files.read(name)
    if content is None:
        return None
    try:
        tree = parse(content)
    except ValueError:
        tree = None
    if not isinstance(tree, dict):
        raise RunError(f"{files.uri}/{name} is no JSON object", "name another run")
    return tree


class _Bucket(RunFiles):
    """The files as Google shows them to a dynamic provider."""

    def __init__(
        self,
        props: Mapping[str, Any],
        endpoint: str | None,
        credentials: CredentialSettings,
        clock: Clock,
    ) -> None:
        self._bucket = props["bucket"]
        self._set_folder(props["run"])
        self._objects = google_api("storage.v1", endpoint, props["project"], credentials).objects()
        self._calls = Calls(clock, _retry_limit, lambda line: print(line, flush=True))

    def _set_folder(self, folder: str) -> None:
        self._prefix, self.uri = f"{folder}/", f"gs://{self._bucket}/{folder}"

    def in_folder(self, folder: str) -> "RunFiles":
        other = copy(self)
        other._set_folder(folder)
        return other

    def read(self, name: str) -> bytes | None:
        return self._send(self._objects.get_media(bucket=self._bucket, object=self._prefix + name), name)

    def sizes(self, folder: str) -> dict[str, int]:
        prefix = f"{self._prefix}{folder}/"
        listed = self._send(self._objects.list(bucket=self._bucket, prefix=prefix, maxResults=1000)) or {}
        items = [(item["name"].removeprefix(prefix), int(item["size"])) for item in listed.get("items", ())]
        return {file: size for file, size in items if file}

    def _send(self, request: Any, name: str = "") -> Any:
        """Google's answer, None if there is no such object or bucket.

        Args:
            name: The file that is asked for, empty for a list.
        """
        place = f"{self.uri}/{name}" if name else self.uri
        try:
            return self._calls.send_with_retries(request)
        except Interrupted as error:
            raise OnceError(f"{place} was not read: {error}") from None
        except CallError as error:
            if error.status == 404:
                return None
            raise OnceError(
                f"{place} cannot be read: {error}; you need roles/storage.objectViewer on the bucket"
            ) from None
        except TooLargeError as error:
            raise RunError(f"{place} is not what a training writes: {error}", _RESTORE) from None


def _retry_limit(_status: int, _reason: str) -> RetryLimit:
    return NO_RETRY


def _whole_model(
    props: Mapping[str, Any],
    files: RunFiles,
    kind: str,
    published: Mapping[str, int] | None,
    *,
    bytes_per_weight: int,
) -> dict[str, Any]:
    sizes = files.sizes(kind)
    if not sizes:
        raise RunError(f"run {files.uri} has no model in {kind}/", "train with a recipe that exports one")
    if published is not None and sizes != dict(published):
        raise RunError(f"{files.uri}/{kind} is not what the run has published", _RESTORE)
    what = f"the model of run {files.uri}"
    _check_room(props, what, sizes, bytes_per_weight)
    length = _length(props, what, _json(files, f"{kind}/config.json") or {})
    base = {"base": "", "base_folder": "", "rank": 0, "template": ""}
    return {"folder": props["run"], "kind": kind, **base, "length": length}


def _check_room(
    props: Mapping[str, Any],
    what: str,
    sizes: Mapping[str, int],
    bytes_per_weight: int,
    *,
    adapters_gb: float = 0.0,
) -> None:
    """Raises RunError if the weights among these files do not fit into a server.

    Args:
        adapters_gb: GB of the places for adapters beside them.
    """
    # vLLM holds two bytes for each weight.
    stored = sum(size for file, size in sizes.items() if file.endswith(_WEIGHTS))
    weights_gb = stored * 2 / bytes_per_weight / 1e9
    room_gb = props["memory_gb"] * _FILLED - _CACHE_GB
    if weights_gb + adapters_gb > room_gb:
        beside = f" and {adapters_gb:.1f} GB for adapters beside them" if adapters_gb else ""
        unit = "TPU chips" if props.get("chips") else "GPUs"
        raise RunError(
            f"{what} has {weights_gb:.1f} GB of weights{beside}, and the {unit} of a server have room for "
            f"{room_gb:.1f}",
            f"give a server more {unit}" + (", or take a run out of moreRuns" if adapters_gb else ""),
        )


def _length(props: Mapping[str, Any], what: str, config: Mapping[str, Any]) -> int:
    """Tokens of a request with its answer: the server's, or fewer if the model has fewer positions.

    Raises:
        RunError: If vLLM would not start with the model.
    """
    for reason, remedy in limits.problems_of_model(
        what, config, int(props["gpus"]), int(props["users_length"]), on_tpu=bool(props.get("chips"))
    ):
        raise RunError(reason, remedy)
    if props.get("chips") and not props.get("any_model") and (untested := limits.untested_on_tpu(config)):
        raise RunError(
            f"{what} ({untested}) is not among those that pass vLLM's own tests on TPU",
            "serve it on L4: remove machine. Or set servingImage to a release of vLLM that serves it",
        )
    positions = limits.positions_of(config) or int(props["max_length"])
    if positions < 1:
        raise ValueError("no positions")
    return min(int(props["max_length"]), positions)


def _adapter(
    props: Mapping[str, Any], files: RunFiles, record: Mapping[str, Any], complete: Mapping[str, Any]
) -> dict[str, Any]:
    recipe, commits = record["recipe"], record.get("commits") or {}
    model = recipe["model"]
    if model.get("quantization", "none") != "none":
        raise RunError(
            f"the adapter of run {files.uri} was trained on {model['quantization']} weights, and a server "
            "would add it to others",
            "train with `training.result: model`, or merge it with "
            f"`python -m finetune merge {files.uri} FOLDER`",
        )
    if files.sizes("adapter") != dict(complete["adapter"]):
        raise RunError(f"{files.uri}/adapter is not what the run has published", _RESTORE)
    config = _json(files, "adapter/adapter_config.json") or {}
    # A run that began with another run's adapter has its rank.
    rank = int(config.get("r") or recipe["lora"]["rank"])
    if rank < 1:
        raise ValueError("no rank")
    for reason, remedy in limits.problems_of_adapter(f"the adapter of run {files.uri}", config, rank):
        raise RunError(reason, remedy)
    base_folder = _base_folder(props, files, model["name"], commits.get("model") or model.get("revision"))
    what, base_files = (
        f"the base model of run {files.uri}",
        files.in_folder(base_folder.removesuffix("/model")),
    )
    base_config = _json(base_files, "model/config.json") or {}
    adapters = int(props["adapters"])
    # Every place has the size of the largest rank, whose run finds here that they are too large.
    adapters_gb = adapters * limits.adapter_gb(base_config, rank) if adapters > 1 else 0.0
    _check_room(props, what, base_files.sizes("model"), bytes_per_weight=2, adapters_gb=adapters_gb)
    return {
        "folder": props["run"],
        "kind": "adapter",
        "base": model["name"],
        "base_folder": base_folder,
        "rank": rank,
        "length": _length(props, what, base_config),
        # A merged model has it among its own files.
        "template": _TEMPLATE if complete.get("own_template") else "",
    }


def _base_folder(props: Mapping[str, Any], files: RunFiles, name: str, commit: str | None) -> str:
    """The folder in the bucket with the files of an adapter's base model, which the run has put there.

    Raises:
        RunError: If it is not there.
    """
    if not _NAME.fullmatch(name) or (commit is not None and not _REVISION.fullmatch(commit)):
        raise ValueError("no name of a model, or no revision")
    runs, slash, _ = props["run"].rpartition("/")
    folder = f"{runs}{slash}weights/{name}/{commit}"
    copied = files.in_folder(folder)
    if copied.read(_MARKER) is None:
        raise RunError(
            f"the adapter of run {files.uri} has no base model beside it",
            f"copy it with `python -m finetune copy {name} {copied.uri} --revision {commit}`",
        )
    return f"{folder}/model"
