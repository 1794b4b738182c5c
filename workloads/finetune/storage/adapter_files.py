"""The files of a trained adapter, of a finished run or of anybody: two files, and no other is read."""

import hashlib
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune.settings.sections import Model
from finetune.settings.values import AdapterSource
from finetune.storage.folder import MARKER, Folder
from shared.errors import InputError
from shared.files import bounded_text, parsed_json, read_json
from shared.record import record_problem

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
FILES = (CONFIG, WEIGHTS)
# What a run records commits of.
SOURCES = ("model", "data", "adapter")


@dataclass(frozen=True, kw_only=True)
class AdapterFiles:
    """A trained adapter on this disk, and what it was trained on.

    Attributes:
        config: Its adapter_config.json.
        quantization: How its base model's weights were held, None if nobody recorded it.
    """

    folder: Path
    config: dict[str, Any]
    base: str
    revision: str | None
    quantization: str | None


def adapter_version(name: str) -> str:
    """40 digits that stand for the bytes of an adapter in a folder."""
    with _at_hand(name) as folder:
        return _digest(folder)


def fetch_adapter(model: Model) -> AdapterFiles | None:
    """The adapter with which a run of the model begins, at its commit. None if it begins with a new one.

    Raises InputError when there is none of two files, and when it has changed since the run began.
    """
    if not (source := model.adapter_source):
        return None
    if source.on_hub:
        return _described(source.name, _from_hub(source), {})
    record = _record(Folder(source.name))
    kept = _cache() / (source.revision or "none")
    if source.revision and kept.is_dir():
        return _described(source.name, kept, record)
    with _at_hand(source.name) as folder:
        digest = _digest(folder)
        if source.revision and digest != source.revision:
            raise InputError(
                f"the adapter in {source.name} has changed since the run began: put back what it was, or "
                "give this one a --run of its own"
            )
        kept = _cache() / digest
        if not kept.is_dir():
            kept.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(kept)
    return _described(source.name, kept, record)


def _cache() -> Path:
    from datasets import config

    return Path(config.HF_DATASETS_CACHE, "adapters")


def _from_hub(source: AdapterSource) -> Path:
    import huggingface_hub

    from shared.hub import read

    folder = read(
        source,
        lambda: huggingface_hub.snapshot_download(
            source.name, revision=source.revision, allow_patterns=[*FILES]
        ),
    )
    return Path(folder)


def _record(folder: Folder) -> dict[str, Any]:
    """The run.json of a run, empty for another folder. Raises InputError for what no run has written."""
    record = folder.first_access(lambda: read_json(folder, "run.json"))
    if record and (problem := record_problem(record, SOURCES)):
        raise InputError(f"run.json of {folder.uri} {problem}")
    return record


@contextmanager
def _at_hand(name: str) -> Generator[Path]:
    """A copy of the two files of an adapter in a folder, which the caller may rename."""
    source = Folder(name)
    prefix = ""
    if _record(source):
        sizes = source.first_access(lambda: read_json(source, MARKER)).get("adapter")
        if not isinstance(sizes, dict):
            raise InputError(f"model.adapter {name} is no finished run with an adapter")
        prefix = "adapter/"
    present = source.first_access(lambda: source.sizes(prefix.strip("/")))
    if missing := [file for file in FILES if file not in present]:
        raise InputError(f"model.adapter {name} has no {' and no '.join(missing)}")
    if outside := [file for file in FILES if source.leads_outside(f"{prefix}{file}")]:
        raise InputError(f"model.adapter {name} has a link to a file outside of it: {outside[0]}")
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as work:
        target = Path(work, "files")
        for file in FILES:
            source.first_access(
                lambda file=file: source.download(f"{prefix}{file}", target / file, present[file])
            )
        yield target


def _digest(folder: Path) -> str:
    whole = hashlib.sha256()
    for file in FILES:
        with (folder / file).open("rb") as stream:
            whole.update(hashlib.file_digest(stream, "sha256").digest())
    return whole.hexdigest()[:40]


def _described(name: str, folder: Path, record: dict[str, Any]) -> AdapterFiles:
    if missing := [file for file in FILES if not (folder / file).is_file()]:
        raise InputError(f"model.adapter {name} has no {' and no '.join(missing)}")
    try:
        with (folder / CONFIG).open("rb") as stream:
            config = parsed_json(bounded_text(stream))
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise InputError(f"{CONFIG} of model.adapter {name} is no configuration of an adapter")
    trained_on = record["recipe"].get("model") if record else {}
    trained_on = trained_on if isinstance(trained_on, dict) else {}
    commits = record.get("commits") or {}
    return AdapterFiles(
        folder=folder,
        config=config,
        base=str(trained_on.get("name") or config.get("base_model_name_or_path") or ""),
        revision=commits.get("model") or config.get("revision"),
        quantization=trained_on.get("quantization"),
    )
