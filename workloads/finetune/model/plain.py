"""A published model without the settings of its publisher's own program, which say nothing of the model."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shared.errors import one_line
from shared.model_files import FROM_DISK


def read_config(name: str | Path, revision: str | None = None) -> Any:
    """A model's configuration, of the cache or of a directory.

    Some name an attention that is not installed here, or give answers in another form than by names. Raises
    ValueError for a value of a type that the model's class does not have.
    """
    from huggingface_hub.errors import StrictDataclassError
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(name, revision=revision, **FROM_DISK)
    except StrictDataclassError as error:
        raise ValueError(one_line(error)) from error
    # Also in the parts.
    config._attn_implementation = None
    for part in (config, *(getattr(config, name, None) for name in config.sub_configs)):
        if part is not None:
            part.update({"return_dict": True, "output_attentions": False, "output_hidden_states": False})
    return config


@contextmanager
def greedy(model: Any) -> Generator[None]:
    """Have a model write its most probable tokens, as a server does at temperature 0.

    The tokens of generation_config.json that begin, end and pad a text stay, and the penalty of repetitions,
    which vLLM takes over. Its searches among several answers and its lists of tokens do not count.
    """
    from transformers import GenerationConfig

    owners = [module for module in model.modules() if "generation_config" in vars(module)]
    published = [owner.generation_config for owner in owners]
    for owner, config in zip(owners, published, strict=True):
        owner.generation_config = GenerationConfig(
            do_sample=False,
            repetition_penalty=config.repetition_penalty,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            pad_token_id=config.pad_token_id,
        )
    try:
        yield
    finally:
        for owner, config in zip(owners, published, strict=True):
            owner.generation_config = config
