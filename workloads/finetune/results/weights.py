"""A model of the Hugging Face Hub in a bucket, once, for servers that read it there.

`model/` has the files, and `COMPLETE.json` is written last. A copy that broke off goes on with the files that
are missing, at the commit with which it began.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finetune.model.loading import check_model
from finetune.settings.sections import Model
from finetune.storage.checkpoint import MARKER
from finetune.storage.data_only import stays_inside
from finetune.storage.folder import Folder
from shared.errors import InputError, PassingError
from shared.files import read_json
from shared.model_files import is_weights, wanted
from shared.record import is_commit

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoFile

FILES = "model"
CONFIG = "config.json"
# What was named, and the commit that it was at the first start.
SOURCE = "source.json"
# Bytes of one request. They are held in memory, because a file may be larger than the disk of a pod.
PIECE = 64 << 20
# Files that go from a disk to a bucket at the same time. One alone uses a part of a machine's network.
UPLOADS = 4


def copy_weights(model: Model, uri: str, length: int = 0, gpus: int = 1) -> None:
    """Copy the files of the model's revision to a folder, gs:// or local. A complete copy asks nobody.

    Args:
        length: Tokens of a request of the servers that will read the copy, 0 for as many as the model takes.
        gpus: GPUs of such a server.

    Raises:
        InputError: The model or the revision does not exist, its licence is not accepted, its weights are
            not in safetensors, or a server would not start with it.
        PassingError: The Hub or the bucket fails for too long, or a file arrives damaged.
    """
    folder = Folder(uri)
    if folder.first_access(lambda: read_json(folder, MARKER)):
        print(f"{uri} has {model.name} already, at {_recorded_commit(folder, MARKER)}", flush=True)
        _check_server(read_json(folder, f"{FILES}/{CONFIG}"), model.name, length, gpus)
        return
    commit = _recorded_commit(folder, SOURCE) or _commit(model)
    model = model.model_copy(update={"revision": commit})
    config = check_model(model)
    _check_server(json.loads(config.read_text()), model.name, length, gpus)
    files = _files(model)
    source = {"model": model.name, "commit": commit}
    folder.first_access(lambda: folder.write_text(SOURCE, json.dumps(source)))
    present = folder.sizes(FILES)
    for number, file in enumerate(files, start=1):
        is_there = present.get(file.path) == file.size
        if not is_there:
            _copy(model, file, folder)
        size = f"{file.size / 1e9:.1f} GB" + (", there already" if is_there else "")
        print(f"{number} of {len(files)}: {file.path}, {size}", flush=True)
    hashes = {file.path: _hash(file)[1] for file in files}
    folder.write_text(MARKER, json.dumps({**source, "files": hashes}, indent=2))


def _check_server(config: dict[str, Any], name: str, length: int, gpus: int) -> None:
    """Raise InputError when vLLM would not start with a model, as `components/finished_run/limits.py` does.

    A file that does not say, or stretches its positions by a factor, is not checked.
    """
    text = config.get("text_config") or config
    text = text if isinstance(text, dict) else {}
    positions, heads = (text.get(key) or 0 for key in ("max_position_embeddings", "num_attention_heads"))
    if not isinstance(positions, int) or not isinstance(heads, int):
        raise InputError(
            f"{CONFIG} of model {name} has no number of positions or heads: choose another model"
        )
    is_stretched = "factor" in json.dumps([text.get("rope_scaling"), text.get("rope_parameters")])
    if length > (positions or length) and not is_stretched:
        raise InputError(
            f"model {name} has {positions} positions, and --max-model-len of its servers is {length}: write "
            f"--max-model-len={positions} or less into vllmArguments"
        )
    if heads % gpus:
        raise InputError(
            f"model {name} has {heads} attention heads, which the {gpus} GPUs of a server do not divide: "
            "choose another model"
        )


def keep_base(model: Model, published: Path, storage: str) -> None:
    """Upload the base model of an adapter to the bucket of its run, unless it is there.

    A server of the adapter then needs that bucket and nothing else.

    Args:
        model: The model at its commit.
        published: Directory with its files from the Hub.
        storage: Folder of the run's own folder, gs:// or local.
    """
    folder = Folder(f"{storage}/weights/{model.name}/{model.revision}")
    if read_json(folder, MARKER):
        return
    names = [str(path.relative_to(published)) for path in published.rglob("*") if path.is_file()]
    files = {name: published / name for name in wanted(names)}
    if not any(map(is_weights, files)):
        print(
            f"{model.name} has no weights in safetensors: no server can read it, nor serve the adapter",
            flush=True,
        )
        return
    present = folder.sizes(FILES)
    missing = {name: file for name, file in files.items() if present.get(name) != file.stat().st_size}
    print(f"the base model goes to {folder.uri}, once, for servers of the adapter", flush=True)
    with ThreadPoolExecutor(UPLOADS) as pool:
        uploads = [pool.submit(folder.upload, file, f"{FILES}/{name}") for name, file in missing.items()]
    for upload in uploads:
        upload.result()
    # The Hub's cache links to files whose names are the Hub's hashes.
    hashes = {name: file.resolve().name for name, file in files.items()}
    source = {"model": model.name, "commit": model.revision, "files": hashes}
    folder.write_text(MARKER, json.dumps(source, indent=2))


def _recorded_commit(folder: Folder, name: str) -> str:
    """The commit in a file of the copy, empty without the file. Raises InputError if it is none."""
    recorded = read_json(folder, name)
    commit = recorded.get("commit")
    if recorded and not is_commit(commit):
        raise InputError(f"{folder.uri}/{name} names no commit: delete the folder, and it is copied anew")
    return commit if isinstance(commit, str) else ""


def _commit(model: Model) -> str:
    """The commit of the revision. Raises InputError if it is gone."""
    from huggingface_hub.errors import RevisionNotFoundError

    from shared.hub import commits

    try:
        return commits({"model": model}, None)["model"]
    except InputError as error:
        if not isinstance(error.__cause__, RevisionNotFoundError):
            raise
        page = f"https://huggingface.co/{model.name}/commits/main"
        raise InputError(
            f"model {model.name} has no revision {model.revision}: choose one of {page}"
        ) from error


def _files(model: Model) -> "list[RepoFile]":
    """The files that a server needs. Raises InputError if there are no weights among them."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    from shared.hub import read

    def listed() -> list[RepoFile]:
        tree = HfApi().list_repo_tree(model.name, revision=model.revision, recursive=True)
        return [entry for entry in tree if isinstance(entry, RepoFile)]

    by_path = {file.path: file for file in read(model, listed)}
    if outside := [path for path in by_path if not stays_inside(path)]:
        raise InputError(f"model {model.name} has a file outside of its folder: {outside[0]!r}")
    files = [by_path[path] for path in wanted(by_path)]
    if not any(is_weights(file.path) for file in files):
        raise InputError(f"model {model.name} has no weights in safetensors: choose another one")
    return files


def _copy(model: Model, file: "RepoFile", folder: Folder) -> None:
    """Copy one file. It appears whole, and only with the Hub's hash."""

    def copy() -> None:
        (digest, expected), received = _hash(file), 0
        with folder.writing(f"{FILES}/{file.path}") as stream:
            for piece in _pieces(model, file):
                digest.update(piece)
                received += len(piece)
                # Before the last piece: what is left of a damaged file never has the size of a whole one.
                if received >= file.size and digest.hexdigest() != expected:
                    raise PassingError(
                        f"{file.path} of {model.name} arrived damaged; the next start copies it again"
                    )
                stream.write(piece)

    folder.patiently(copy)


def _hash(file: "RepoFile") -> tuple[Any, str]:
    """A hash of nothing yet, and its value for the whole file: a large file's SHA-256, or Git's own SHA-1."""
    if file.lfs:
        return hashlib.sha256(), file.lfs.sha256
    return hashlib.sha1(f"blob {file.size}\0".encode()), file.blob_id


def _pieces(model: Model, file: "RepoFile") -> Iterator[bytes]:
    """The content of a file. Each request is repeated while the Hub is in trouble."""
    import huggingface_hub
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

    from shared.hub import read

    url = huggingface_hub.hf_hub_url(model.name, file.path, revision=model.revision)

    def piece(first: int) -> bytes:
        whole = file.size <= PIECE
        part = {} if whole else {"Range": f"bytes={first}-{min(first + PIECE, file.size) - 1}"}
        response = huggingface_hub.get_session().get(url, headers={**build_hf_headers(), **part})
        hf_raise_for_status(response)
        return response.content

    for first in range(0, file.size, PIECE):
        yield read(model, lambda first=first: piece(first))
