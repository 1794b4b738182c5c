"""The files of finished training runs in the fake Cloud Storage, for stacks that serve one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

# The setting that names a run of another stack.
SETTING: Final = "servedRun"


def path_of(address: object) -> Path:
    """The path of `gs://BUCKET/FOLDER` below the folder of all buckets."""
    return Path(str(address).removeprefix("gs://"))


def write_served_run(settings: Mapping[str, Any], buckets: Path) -> None:
    """Writes the run that a stack's settings name into the folder of all buckets.

    Args:
        settings: Values by full key.
        buckets: The folder that `Buckets` serves.
    """
    for key, value in settings.items():
        if key.endswith(f":{SETTING}"):
            write_run(buckets / path_of(value))


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
    (model / "config.json").write_text(json.dumps(config or {}))
    with (model / "model.safetensors").open("wb") as weights:
        weights.truncate(int(gigabytes * 1e9))
    recipe = {
        "model": {"name": "google/gemma-3-4b-it", "quantization": "none"},
        "lora": {"rank": 16},
        "data": {"system": "Answer with a query.", "prompt": "{schema}\n{question}"},
    }
    (folder / "run.json").write_text(json.dumps({"recipe": recipe, "commits": {"model": "0" * 40}}))
    sizes = {file.name: file.stat().st_size for file in sorted(model.iterdir())}
    (folder / "COMPLETE.json").write_text(json.dumps({"model": sizes, **complete}))
