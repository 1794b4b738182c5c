"""The chat template of a published model: it asks as the run has trained."""

import json
from pathlib import Path
from typing import Any

from conversations.thinking import settle

FILE = "chat_template.jinja"


def template_beside(adapter: Path) -> str | None:
    """The chat template in the directory of an adapter. An older version wrote none."""
    file = adapter / FILE
    return file.read_text() if file.is_file() else None


def template_of(processor: Any) -> str | None:
    """The chat template of a processor or of a tokenizer, the default one of several."""
    return _default(getattr(processor, "tokenizer", processor).chat_template)


def keep_template(asked: str | None, target: Path) -> None:
    """Give a model the chat template that it was trained with, if that is another than its base's.

    Args:
        asked: The template, None for the base model's.
        target: Directory of the model, with the base model's files.
    """
    if not asked or asked == _default(_tokenizer(target).chat_template):
        return
    for thinks in (False, True):
        settled = _tokenizer(target)
        settle(settled, thinks)
        if _default(settled.chat_template) == asked:
            _write(settled.chat_template, target)


def _tokenizer(directory: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory, local_files_only=True)


def _default(template: Any) -> str | None:
    return template.get("default") if isinstance(template, dict) else template


def _write(template: str | dict[str, str], target: Path) -> None:
    """Write a template, or several by their names, into the files in which transformers looks."""
    named = template if isinstance(template, dict) else {"default": template}
    (target / FILE).write_text(named["default"])
    # An older form, which processors of pictures have beside it.
    (target / "chat_template.json").unlink(missing_ok=True)
    file = target / "tokenizer_config.json"
    settings = json.loads(file.read_text())
    settings.pop("chat_template", None)
    if len(named) > 1:
        (target / FILE).unlink()
        settings["chat_template"] = [{"name": name, "template": text} for name, text in named.items()]
    file.write_text(json.dumps(settings, indent=2, ensure_ascii=False))
