"""A finished training run in a bucket, looked up by `pulumi up` before anything serves it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pulumi
from pulumi import dynamic

from components.base.clock import Clock
from components.base.once import OnceError, OnceProvider

# What the look-up finds, see `components.finished_run.lookup.result_of`.
_RESULTS: Final = (
    *("folder", "kind", "base", "base_folder", "rank", "length", "template"),
    *("system", "prompt", "pictures", "texts"),
)
# `up` stops at the look-up, so a stack that is new and serves its own run would never train it.
_TRAIN_FIRST: Final = (
    "if this stack has not trained it yet: `pulumi config set serve hub && pulumi up` trains it, and when it "
    "is finished `pulumi config set serve run && pulumi up` serves it"
)
# Inputs that decide whether a run may be served.
_CONDITIONS: Final = (
    *("run", "beside", "adapters", "serve_not_good"),
    *("memory_gb", "gpus", "max_length", "users_length", "chips", "any_model"),
)


class FinishedRunProvider(OnceProvider):
    """Looks at the run's files when the resource is created, and when an update names another run."""

    servers: ClassVar = {"storage": "gcp:storageCustomEndpoint"}
    identity = ("bucket",)

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        """Reports an update if a condition has changed, and until the result is the run that is wanted."""
        replaces = [key for key in self.identity if _olds.get(key) != _news.get(key)]
        # A state of an older version lacks the newer conditions, which are empty unless a stack uses them.
        is_new = any((_olds.get(key) or None) != (_news.get(key) or None) for key in _CONDITIONS)
        is_behind = _olds.get("folder") != _news.get("run")
        changes = bool(replaces) or is_new or is_behind or not _is_complete(_olds)
        return dynamic.DiffResult(changes=changes, replaces=replaces)

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        """Looks the run up.

        Raises:
            OnceError: If the run must not be served. The message has the reason and the next step.
        """
        try:
            result = self._look_up(props)
        except OnceError as error:
            if not props["keep"]:
                raise
            raise OnceError(f"{error}; {_TRAIN_FIRST}") from None
        return dynamic.CreateResult(f"{props['bucket']}/{result['folder']}", {**props, **result})

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.UpdateResult:
        """Looks the other run up. With `keep`, the run before stays if the other one must not be served."""
        try:
            result = self._look_up(_news)
        except OnceError as error:
            if not _news["keep"] or not _is_complete(_olds):
                raise
            print(f"run {_olds['folder']} is still served: {error}", flush=True)
            result = {key: _olds[key] for key in _RESULTS}
        return dynamic.UpdateResult({**_news, **result})

    def _look_up(self, props: dict[str, Any]) -> dict[str, Any]:
        # Imported here, so that a preview does not load Google's client library.
        from components.finished_run.lookup import look_up

        return look_up(props, self._endpoints["storage"], self._credentials, Clock())


def _is_complete(state: Mapping[str, Any]) -> bool:
    """Whether a state has all results. One of an older version, which looked for less, has not."""
    return all(state.get(key) is not None for key in _RESULTS)


class FinishedRun(dynamic.Resource, module="storage", name="FinishedRun"):
    """A run that is complete and good, with what a server must know about it.

    Its inputs:
        project: The stack's project, whose credentials read the bucket.
        bucket: Name of the bucket.
        run: Folder of the run in the bucket, without a slash at either end.
        beside: Folder of the run whose servers have this one's adapter too. Both need the same base model.
            Empty for a run with servers of its own.
        adapters: Number of adapters of a server, if it has any.
        serve_not_good: Whether a run is accepted that failed `evaluation.good` of its recipe.
        memory_gb: GB of memory of a server's accelerators. A model whose weights do not fit is refused.
        gpus: Number of GPUs or TPU chips of a server. A model is refused whose heads they do not divide.
        max_length: Tokens of a request with its answer. A model with fewer positions takes fewer.
        users_length: The user's `--max-model-len`, 0 without one. A model with fewer positions is refused.
        keep: Whether an update to a run that must not be served keeps the run before, and says why. Without
            it such an update fails.
        chips: Version of a server's TPU chips, such as `v6e`. Empty for GPUs.
        any_model: Whether a server on TPU chips may have a model that vLLM's own tests do not pass.

    Attributes:
        folder: The run's folder, or with `keep` that of the run before.
        kind: The folder inside it that is served: `model`, `hugging-face` or `adapter`.
        base: Model on the Hub that an adapter belongs to, empty for a whole model.
        base_folder: Folder in the bucket with the base model's files, empty for a whole model.
        rank: Rank of the adapter, 0 for a whole model.
        length: Tokens of a request with its answer: the input, or the model's positions if they are fewer.
        template: File in `kind` with the chat template of an adapter, empty for that of its base.
        system: System message of the rows that the run was trained on, empty for none.
        prompt: Their user message with placeholders for fields, empty if the rows are conversations.
        pictures: Whether the rows have pictures.
        texts: Whether the rows are plain texts, which ask nothing.
    """

    bucket: pulumi.Output[str]
    folder: pulumi.Output[str]
    kind: pulumi.Output[str]
    base: pulumi.Output[str]
    base_folder: pulumi.Output[str]
    rank: pulumi.Output[int]
    length: pulumi.Output[int]
    template: pulumi.Output[str]
    system: pulumi.Output[str]
    prompt: pulumi.Output[str]
    pictures: pulumi.Output[bool]
    texts: pulumi.Output[bool]

    def __init__(
        self, name: str, inputs: Mapping[str, pulumi.Input[Any]], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(FinishedRunProvider(), name, {**inputs, **dict.fromkeys(_RESULTS)}, opts)
