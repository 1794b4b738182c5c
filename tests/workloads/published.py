"""Writes tiny models as their repositories have them, by the values of `published_families.py`."""

import json
from pathlib import Path
from typing import Any

from published_families import DENSE, MIXTURES, Family
from published_more import MORE
from published_others import HYBRIDS, PICTURES, REFUSED
from tiny_families import templates, tokenizer_of

FAMILIES = {family.name: family for family in (*DENSE, *MIXTURES, *HYBRIDS, *PICTURES, *MORE, *REFUSED)}


def config_of(family: Family) -> Any:
    """Its configuration, which is tiny."""
    import transformers

    return getattr(transformers, family.kind)(**family.settings)


def make_published(family: Family, path: Path) -> Path:
    """Write the model and its tokenizer as their repository has them. Returns `path`."""
    import torch
    from safetensors.torch import load_file, save_file

    from finetune.model.families import auto_class

    config = config_of(family)
    torch.manual_seed(5)
    model = auto_class(config).from_config(config)
    tokenizer = tokenizer_of(templates()[family.template])
    own = [token for token in family.stops or () if " " not in token]
    tokenizer.add_tokens([token for token in own if token not in tokenizer.get_vocab()], special_tokens=True)
    if not family.pads:
        tokenizer.pad_token = None
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(own) or [_end(tokenizer)]
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    if family.stops is None:
        (path / "generation_config.json").unlink()
    for file, names in family.extra.items():
        target = path / f"{file}.safetensors"
        target.parent.mkdir(exist_ok=True)
        weights = load_file(target) if target.exists() else {}
        # A second copy of a tied embedding has its size.
        embedding = weights.get("model.embed_tokens.weight", torch.ones(2, 2))
        more = {name: embedding.clone() for name in names}
        save_file(weights | more, target, metadata={"format": "pt"})
    return path


def _end(tokenizer: Any) -> int:
    from conversations.stops import end_of_reply

    return end_of_reply(tokenizer)


def names_in(folder: Path) -> set[str]:
    """Names of the tensors in a model's own files."""
    from safetensors import safe_open

    names: set[str] = set()
    for file in folder.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            names |= set(tensors.keys())
    return names


def changed(path: Path, file: str, **values: Any) -> None:
    """Set values in a JSON file of a model."""
    tree = json.loads((path / file).read_text()) if (path / file).exists() else {}
    (path / file).write_text(json.dumps(tree | values))
