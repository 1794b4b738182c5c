"""The files of finished training runs in the fake Cloud Storage, for stacks that serve one."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

# The setting that names a run of another stack, and the one with more runs for the same servers.
SETTING: Final = "servedRun"
_MORE: Final = "moreRuns"
_BASE, _COMMIT = "google/gemma-3-4b-it", "0" * 40
_CONFIG: Final = {"architectures": ["Gemma3ForConditionalGeneration"]}


def path_of(address: object) -> Path:
    """The path of `gs://BUCKET/FOLDER` below the folder of all buckets."""
    return Path(str(address).removeprefix("gs://"))


def write_served_run(settings: Mapping[str, Any], buckets: Path) -> None:
    """Writes the runs that a stack's settings name into the folder of all buckets.

    With several runs each is an adapter, because servers have several runs only as adapters of one model.

    Args:
        settings: Values by full key.
        buckets: The folder that `Buckets` serves.
    """
    own = {key.rpartition(":")[2]: value for key, value in settings.items()}
    more = own.get(_MORE) or []
    more = json.loads(more) if isinstance(more, str) else more
    write = write_adapter if more else write_run
    for address in filter(None, (own.get(SETTING), *more)):
        write(buckets / path_of(address))


def write_run(
    folder: Path, *, gigabytes: float = 2.0, config: Mapping[str, Any] | None = None, **complete: Any
) -> None:
    """Writes the files of a finished run by which a server's program knows it, with a merged model.

    Args:
        folder: The run's folder.
        gigabytes: Size of the model's weights. The file takes no space on the disk.
        config: The model's config.json.
        complete: More content of COMPLETE.json, such as `not_good`.
    """
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text(json.dumps({**_CONFIG, **(config or {})}))
    with (model / "model.safetensors").open("wb") as weights:
        weights.truncate(int(gigabytes * 1e9))
    recipe = {
        "model": {"name": _BASE, "quantization": "none"},
        "lora": {"rank": 16},
        "data": {"system": "Answer with a query.", "prompt": "{schema}\n{question}"},
    }
    (folder / "run.json").write_text(json.dumps({"recipe": recipe, "commits": {"model": _COMMIT}}))
    sizes = {file.name: file.stat().st_size for file in sorted(model.iterdir())}
    (folder / "COMPLETE.json").write_text(json.dumps({"model": sizes, **complete}))


def write_adapter(folder: Path, *, base_gb: float = 8.6) -> None:
    """Writes the files of a finished run that has published only its adapter, and its base model beside it.

    Args:
        folder: The run's folder.
        base_gb: Size of the base model's weights.
    """
    write_run(folder)
    shutil.rmtree(folder / "model")
    adapter, base = folder / "adapter", folder.parent / "weights" / _BASE / _COMMIT
    for path in (adapter, base / "model"):
        path.mkdir(parents=True, exist_ok=True)
    with (base / "model/model.safetensors").open("wb") as weights:
        weights.truncate(int(base_gb * 1e9))
    (base / "COMPLETE.json").write_text("{}")
    (base / "model/config.json").write_text(json.dumps(_CONFIG))
    (adapter / "adapter_model.safetensors").write_text("0123")
    (folder / "COMPLETE.json").write_text(json.dumps({"adapter": {"adapter_model.safetensors": 4}}))
