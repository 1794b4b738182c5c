"""Stop tokens of a published model, and the end of a reply in its chat template."""

import json
from pathlib import Path
from typing import Any

from conversations.chat_template import STOPS, TAKE_ANOTHER, ChatTemplate
from conversations.cpu_limit import SECONDS, ends
from shared.errors import InputError
from shared.model_files import FROM_DISK

TRIAL: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


def short_row(tokenizer: Any) -> list[int]:
    """The tokens of a short conversation, or of a text for a model without a chat template."""
    if not tokenizer.chat_template:
        return tokenizer("Hello, yes")["input_ids"]
    return ChatTemplate(tokenizer).row([*TRIAL, {"role": "assistant", "content": "yes"}]).tokens


def check_ends(processor: Any) -> None:
    """Raises InputError when the chat template of a processor, or of a tokenizer, does not end.

    It is a program of the model's author. One that ends in an error has its own line later.
    """
    tokenizer = getattr(processor, "tokenizer", processor)
    if not tokenizer.chat_template:
        return

    def write() -> None:
        ChatTemplate(tokenizer, processor).prompt(TRIAL)
        short_row(tokenizer)

    if not ends(write):
        raise InputError(
            f"the model's chat template does not end: a short conversation takes it more than {SECONDS} CPU "
            "seconds; take another model"
        )


def short_prompt(tokenizer: Any) -> list[int]:
    """The tokens of a question, or of the beginning of a text for a model without a chat template."""
    if not tokenizer.chat_template:
        return tokenizer("Hello")["input_ids"]
    return tokenizer(ChatTemplate(tokenizer).prompt(TRIAL), add_special_tokens=False)["input_ids"]


def end_of_reply(tokenizer: Any) -> int:
    """The token that ends a reply in the model's chat template, or a text of a model without one.

    Raises InputError when replies end with an ordinary text, at which no server stops.
    """
    if not tokenizer.chat_template:
        return tokenizer.eos_token_id
    row = ChatTemplate(tokenizer).row([*TRIAL, {"role": "assistant", "content": "yes"}])
    end = [token for token, is_trained in zip(row.tokens, row.trained, strict=True) if is_trained][-1]
    if end not in tokenizer.added_tokens_decoder and end != tokenizer.eos_token_id:
        raise InputError(
            f"the model's chat template ends a reply with {tokenizer.decode([end])!r}, which is no token of "
            f"its own in the tokenizer, so that no server would stop there; {TAKE_ANOTHER}"
        )
    return end


def stops(model: str | Path, revision: str | None = None) -> list[int]:
    """The tokens at which a published model stops, by its own settings. It is cached or a directory."""
    from transformers import AutoConfig, GenerationConfig

    name = str(model)
    options: dict[str, Any] = {"revision": revision, **FROM_DISK}
    try:
        config = GenerationConfig.from_pretrained(name, **options)
    except OSError:  # it has no generation_config.json
        config = GenerationConfig.from_model_config(AutoConfig.from_pretrained(name, **options))
    ends = config.eos_token_id
    return [*ends] if isinstance(ends, list) else [] if ends is None else [ends]


def tell_stops(tokenizer: Any, model: str, revision: str | None = None) -> None:
    """Have a tokenizer know where a server of its model stops: what is trained ends there.

    vLLM stops at the tokenizer's own end of a text too.
    """
    setattr(tokenizer, STOPS, {*stops(model, revision), tokenizer.eos_token_id})


def missing_stop(tokenizer: Any, published: Path, result: str) -> str | None:
    """A line about a reply's end at which the published model does not stop, or None if it does.

    Raises what `end_of_reply` does.
    """
    end = end_of_reply(tokenizer)
    if end in stops(published):
        return None
    problem = f"replies end with {tokenizer.decode([end])}, at which the published model does not stop: "
    if result == "model":
        return problem + "generation_config.json of the result names it"
    return problem + f"ask a server of the adapter with stop_token_ids [{end}], or set training.result: model"


def add_stop(tokenizer: Any, directory: Path) -> None:
    """Have the model in a directory stop at the end of a reply."""
    end, known = end_of_reply(tokenizer), stops(directory)
    if end in known:
        return
    file = directory / "generation_config.json"
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps({**settings, "eos_token_id": [*known, end]}, indent=2))
