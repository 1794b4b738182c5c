"""A chat template is a program of the model's author: one that does not end, ends a run before it begins."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversations import cpu_limit
from conversations.stops import check_ends
from finetune.model.loading import load_processor
from finetune.settings.templates import TemplateName
from shared.errors import InputError

LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
ENDLESS = {
    "loops": LOOPS,
    "loops for a reply": f"{{% if messages|length > 1 %}}{LOOPS}{{% endif %}}",
    # In C, where no other thread of Python runs.
    "a power": "{{ 9 ** (9 ** (9 + messages|length - messages|length)) }}",
    "a power that the compiler computes": "{{ 9 ** (9 ** 9) }}",
}


@pytest.fixture(autouse=True)
def _one_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_limit, "SECONDS", 1)


def with_template(tiny: Path, target: Path, text: str) -> Path:
    """The tiny model's tokenizer and configuration, with another chat template."""
    target.mkdir()
    for file in (tiny / "text-model").glob("*.json"):
        (target / file.name).write_bytes(file.read_bytes())
    settings = target / "tokenizer_config.json"
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"chat_template": text}))
    (target / "chat_template.jinja").write_text(text)
    return target


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_template_that_does_not_end_is_told_in_one_line(kind: str, tiny: Path, tmp_path: Path) -> None:
    model = with_template(tiny, tmp_path / "model", ENDLESS[kind])
    with pytest.raises(InputError, match=r"chat template .*does not end.*take another model") as error:
        load_processor(str(model), pictures=False)
    assert "\n" not in str(error.value)


def test_a_borrowed_template_takes_the_place_of_one_that_does_not_end(tiny: Path, tmp_path: Path) -> None:
    model = with_template(tiny, tmp_path / "model", LOOPS)
    name: TemplateName = "gemma3"
    assert load_processor(str(model), pictures=False, template=name).chat_template


ENDS: dict[str, Callable[[], Any]] = {
    "at once": lambda: None,
    "with an error": lambda: 1 / 0,
    "with the process": lambda: exit(3),
}


@pytest.mark.parametrize("kind", ENDS)
def test_what_ends_in_any_way_is_no_matter_of_its_time(kind: str) -> None:
    assert cpu_limit.ends(ENDS[kind])


def test_a_tokenizer_without_a_template_is_not_asked() -> None:
    class Plain:
        chat_template = None

    check_ends(Plain())
