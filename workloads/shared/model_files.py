"""The files of a model's repository that hold it once, for every program that downloads or copies it.

Many repositories have the weights several times: as `consolidated.safetensors`, in folders such as
`original/`, in half the size beside the whole, and for other libraries. None of these is wanted.
"""

import re
from collections.abc import Iterable
from typing import Any

# Configuration, tokenizer, chat template, and the index of the weights.
DESCRIPTIONS = ("*.json", "*.model", "*.jinja", "*.txt")
# One file, or the numbered parts of one. A name without a number has a second copy, as in model.fp16.
WEIGHTS = ("model.safetensors", "model-*-of-*.safetensors", "model.safetensors-*-of-*.safetensors")
# Patterns of the Hub's library, where a * also stands for a slash.
WANTED = (*DESCRIPTIONS, *WEIGHTS)
UNWANTED = ("*/*.safetensors",)
# Options of every load: from this disk, and without code of the repository. By default transformers asks at a
# terminal whether it may run that code.
FROM_DISK: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
_NAME = re.compile(r"model(\.safetensors)?(-\d+-of-\d+)?\.safetensors")


def is_weights(path: str) -> bool:
    """Whether a file of a repository, by its path there, has weights that transformers and vLLM load."""
    return bool(_NAME.fullmatch(path))


def wanted(paths: Iterable[str]) -> list[str]:
    """Those of a repository's files that a download with WANTED and without UNWANTED brings."""
    from huggingface_hub.utils import filter_repo_objects

    return [*filter_repo_objects(paths, allow_patterns=[*WANTED], ignore_patterns=[*UNWANTED])]
