"""A chat template's date is the run's first day, also on another day and in every process."""

import json
from datetime import datetime, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from outcomes import losses
from published import FAMILIES, make_published
from test_published import FEW, recipe_of, start
from tiny_families import templates

from finetune.run.driver import Request

# Templates that write the date, of those that trl has.
DATED = ["gptoss", "llama3_2", "muse_glimmer"]


def on(patch: pytest.MonkeyPatch, day: str) -> None:
    """Every clock of a run shows that day."""

    def now(zone: tzinfo | None = None) -> datetime:
        return datetime.fromisoformat(f"{day}T23:59:00").replace(tzinfo=zone)

    clock = SimpleNamespace(now=now, combine=datetime.combine)
    for module in (
        "transformers.utils.chat_template_utils",
        "finetune.storage.checkpoint",
        "conversations.day",
    ):
        patch.setattr(f"{module}.datetime", clock)


@pytest.fixture
def dated(tiny: Path, tmp_path: Path) -> Path:
    """A recipe for a model whose template writes the date, as Llama 3.2's does."""
    model = make_published(FAMILIES[FEW], tmp_path / "model")
    (model / "chat_template.jinja").write_text(
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if loop.first %}Today: {{ strftime_now('%d %b %Y') }}\n{% endif %}"
        "{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    training = {"packing": False, "batch_size": 2, "save_every_steps": 2, "result": "adapter"}
    return recipe_of(model, tiny, tmp_path, training=training, evaluation={"rows": 0})


def test_a_run_that_resumes_on_another_day_trains_the_rows_of_its_first(
    dated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from finetune import local_driver

    store = dated.parent / "store"
    with monkeypatch.context() as first_day:
        on(first_day, "2026-11-28")
        assert start(dated) == 0
        undisturbed = losses(store / "mine")
        (store / "mine").rename(store / "undisturbed")
        asked: list[int] = []

        def stop(_: Any) -> Request:
            asked.append(1)
            return Request.SAVE_AND_STOP if len(asked) == 2 else Request.CONTINUE

        first_day.setattr(local_driver.LocalDriver, "requested", stop)
        assert start(dated) == 143
    assert json.loads((store / "mine/run.json").read_text())["day"] == "2026-11-28"
    capsys.readouterr()
    with monkeypatch.context() as later:
        on(later, "2027-01-09")
        assert start(dated) == 0
    printed = capsys.readouterr().out
    assert "Today: 28 Nov 2026" in printed and "2027" not in printed
    assert "the run keeps 2026-11-28, the day on which it began, and a server writes its own\n" in printed
    assert losses(store / "mine") == undisturbed
    adapters = [store / name / "adapter/adapter_model.safetensors" for name in ("mine", "undisturbed")]
    assert adapters[0].read_bytes() == adapters[1].read_bytes()


def test_a_template_without_a_date_is_not_mentioned(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(make_published(FAMILIES[FEW], tmp_path / "model"), tiny, tmp_path)
    assert start(recipe, "--dry-run") == 0
    assert "writes a date" not in capsys.readouterr().out


@pytest.mark.parametrize("name", DATED)
def test_a_published_template_writes_the_day_that_is_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tiny_families import tokenizer_of

    from conversations import day

    assert sorted(name for name, text in templates().items() if day.ASKS in text) == DATED
    on(monkeypatch, "2027-01-09")
    tokenizer = tokenizer_of(templates()[name])
    assert "the run keeps 2026-11-28" in (day.line(tokenizer, "2026-11-28") or "")
    # To ask changes nothing.
    assert "2027" in tokenizer.apply_chat_template([day.USER], tokenize=False)
    day.keep("2026-11-28")
    talk = [{"role": "user", "content": "Hello"}]
    text = tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
    assert "2026" in text and "2027" not in text


@pytest.mark.parametrize(
    ("condition", "writes"),
    [("tools", False), ("date_string is defined", False), ("messages[0].role == 'system'", True)],
)
def test_a_template_that_can_write_a_date_is_tried_on_two_days(condition: str, writes: bool) -> None:
    from tiny_families import tokenizer_of

    from conversations import day

    today = "{{ strftime_now('%d %b %Y') }}"
    tokenizer = tokenizer_of(f"{{% if {condition} %}}{today}{{% endif %}}{{{{ messages[-1].content }}}}")
    assert bool(day.line(tokenizer, "2026-11-28")) == writes
