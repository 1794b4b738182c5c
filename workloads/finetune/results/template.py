"""The chat template of a published model: it asks as the run has trained."""

import json
from pathlib import Path
from typing import Any

from finetune.rows.thinking import settle

FILE = "chat_template.jinja"


def keep_template(trained: Path, target: Path) -> None:
    """Give a model the chat template that it was trained with, if that is another than its base's.

    Args:
        trained: Directory of a checkpoint or of an adapter, with the tokenizer's files.
        target: Directory of the model, with the base model's.
    """
    file = trained / FILE
    if not file.is_file() or (asked := file.read_text()) == _default(_tokenizer(target).chat_template):
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
