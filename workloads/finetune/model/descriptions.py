"""The files beside a model's weights: each is what its name says, or one line names it and what is wrong.

transformers names the file of some faults only, and takes a generation_config.json that is cut short for
none.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conversations.cpu_limit import ends
from shared.errors import InputError, one_line

JINJA = "chat_template.jinja"
TOKENIZER = "tokenizer.json"
_REMEDY = "fetch the file again, or take another model.revision"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_token_or_list(value: Any) -> bool:
    return _is_token(value) or (isinstance(value, list) and all(map(_is_token, value)))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_text_or_object(value: Any) -> bool:
    return isinstance(value, str | dict)


def _is_template(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list)
        and all(isinstance(entry, dict) and {"name", "template"} <= entry.keys() for entry in value)
    )


def _is_list_or_text(value: Any) -> bool:
    return isinstance(value, str | list)


_NUMBER, _TOKEN = ("a number", _is_number), ("the number of a token", _is_token)
_TOKENS, _TEXT = ("the number of a token, or a list of them", _is_token_or_list), ("a text", _is_text)
_WORD = ("a text or an object", _is_text_or_object)
_TEMPLATE = ("a text, or a list of objects with name and template", _is_template)
Fields = Mapping[str, tuple[str, Callable[[Any], bool]]]
# Files that are an object of JSON, and the fields that a run or a server reads, each null or of this form.
OBJECTS: Mapping[str, Fields] = {
    "config.json": {"model_type": _TEXT},
    "generation_config.json": {
        "eos_token_id": _TOKENS,
        "bos_token_id": _TOKEN,
        "pad_token_id": _TOKEN,
        **dict.fromkeys(("temperature", "top_p", "top_k", "min_p", "repetition_penalty"), _NUMBER),
        **dict.fromkeys(("max_new_tokens", "max_length"), _NUMBER),
    },
    "tokenizer_config.json": {
        "chat_template": _TEMPLATE,
        "model_max_length": _NUMBER,
        "tokenizer_class": _TEXT,
        **dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), _WORD),
    },
    "special_tokens_map.json": {},
    "added_tokens.json": {},
    "preprocessor_config.json": {},
    "processor_config.json": {},
    "chat_template.json": {"chat_template": _TEMPLATE},
    "model.safetensors.index.json": {},
    "adapter_config.json": {
        "peft_type": _TEXT,
        "r": _NUMBER,
        "lora_alpha": _NUMBER,
        "target_modules": ("a text or a list", _is_list_or_text),
    },
}


def check_descriptions(name: str | Path, revision: str | None = None) -> None:
    """Read the small files of a model or adapter that is cached or a directory.

    Raises:
        InputError: A file is not what its name says.
    """
    for file, fields in OBJECTS.items():
        if path := _found(name, file, revision):
            _raise_first(_problems(path, fields), f"{file} of {name}")


def check_template(name: str | Path, revision: str | None = None) -> None:
    """Read the chat template of a model that is cached or a directory.

    Raises:
        InputError: It is none.
    """
    if path := _found(name, JINJA, revision):
        _raise_first(_template_problems(path), f"{JINJA} of {name}")
    for file in ("tokenizer_config.json", "chat_template.json"):
        if path := _found(name, file, revision):
            _raise_first(_problems_inside(path), f"{file} of {name}")


def tokenizer_problem(name: str | Path, revision: str | None = None) -> str:
    """What is wrong with tokenizer.json, which is large. Empty if nothing is."""
    path = _found(name, TOKENIZER, revision)
    problem = next(_problems(path, {}), "") if path else ""
    return problem and f"{TOKENIZER} {problem}"


def _raise_first(problems: Iterator[str], file: str) -> None:
    if problem := next(problems, ""):
        raise InputError(f"{file} {problem}; {_REMEDY}")


def _found(name: str | Path, file: str, revision: str | None) -> Path | None:
    """The file of a directory, or of a repository in the cache. None if there is none."""
    if Path(name).is_dir():
        path = Path(name, file)
        return path if path.is_file() else None
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(str(name), file, revision=revision)
    return Path(cached) if isinstance(cached, str) else None


def _problems(path: Path, fields: Fields) -> Iterator[str]:
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        yield "is no text in UTF-8"
        return
    except (ValueError, RecursionError) as error:
        yield f"is no JSON, or is cut short ({one_line(error)})"
        return
    if not isinstance(tree, dict):
        yield f"is no object of JSON but {'null' if tree is None else f'a {type(tree).__name__}'}"
        return
    for key, (form, fits) in fields.items():
        if tree.get(key) is not None and not fits(tree[key]):
            yield f"has {str(tree[key])[:80]!r} for {key}, which must be {form}"


def _problems_inside(path: Path) -> Iterator[str]:
    """What is wrong with the templates in a file, which is known to be an object."""
    template = json.loads(path.read_text(encoding="utf-8")).get("chat_template")
    named = template if isinstance(template, list) else [{"template": template or ""}]
    for entry in named:
        yield from _syntax_problems(str(entry["template"]))


def _template_problems(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield "is no text in UTF-8"
        return
    if not text.strip():
        yield "is empty"
    yield from _syntax_problems(text)


def _syntax_problems(text: str) -> Iterator[str]:
    from jinja2 import TemplateSyntaxError
    from transformers.utils.chat_template_utils import _compile_jinja_template

    # The compiler computes what stands between constants.
    if not ends(lambda: _compile_jinja_template(text)):
        yield "is a chat template that does not end"
        return
    try:
        _compile_jinja_template(text)
    except TemplateSyntaxError as error:
        yield f"is no chat template, in line {error.lineno}: {one_line(error)}"
