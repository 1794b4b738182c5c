"""A file beside a model's weights that is broken ends a run with one line that names the file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from published import FAMILIES, make_published

from finetune.model.descriptions import OBJECTS
from finetune.model.loading import config_in_cache, load_processor, with_adapter
from finetune.settings.sections import Model
from shared.errors import InputError

Break = Callable[[Path], Any]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_published(FAMILIES["Qwen/Qwen3-0.6B"], tmp_path_factory.mktemp("published") / "model")


@pytest.fixture
def model(published: Path, tmp_path: Path) -> Path:
    return shutil.copytree(published, tmp_path / "model")


def text(content: str) -> Break:
    return lambda path: path.write_text(content)


def fields(**values: Any) -> Break:
    def change(path: Path) -> None:
        path.write_text(json.dumps(json.loads(path.read_text() if path.exists() else "{}") | values))

    return change


def no_text(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")


BROKEN: dict[str, tuple[Break, str]] = {
    "cut short": (text('{"eos_token_id": [1, '), "is no JSON, or is cut short"),
    "empty": (text(""), "is no JSON, or is cut short"),
    "a page of a proxy": (text("<html>Sign in</html>"), "is no JSON, or is cut short"),
    "a list": (text("[1]"), "is no object of JSON but a list"),
    "null": (text("null"), "is no object of JSON but null"),
    "no text": (no_text, "is no text in UTF-8"),
}
WRONG: list[tuple[str, Break, str]] = [
    ("config.json", fields(model_type=["qwen3"]), "for model_type, which must be a text"),
    ("config.json", fields(hidden_size="many"), "Field 'hidden_size' expected int"),
    ("generation_config.json", fields(eos_token_id="</s>"), "for eos_token_id, which must be the number of"),
    ("generation_config.json", fields(eos_token_id=[1, "</s>"]), "for eos_token_id, which must be the num"),
    ("generation_config.json", fields(temperature="hot"), "for temperature, which must be a number"),
    ("tokenizer_config.json", fields(eos_token=7), "for eos_token, which must be a text or an object"),
    (
        "tokenizer_config.json",
        fields(model_max_length="long"),
        "for model_max_length, which must be a number",
    ),
    ("tokenizer_config.json", fields(chat_template=7), "for chat_template, which must be a text, or a list"),
    ("tokenizer_config.json", fields(chat_template="{% if %}"), "is no chat template, in line 1"),
    ("tokenizer.json", text('{"model": {'), "is no JSON, or is cut short"),
    (
        "chat_template.jinja",
        text("{% for m in messages %}\n{{ m.content }"),
        "is no chat template, in line 2",
    ),
    ("chat_template.jinja", text(""), "is empty"),
    ("chat_template.jinja", no_text, "is no text in UTF-8"),
]


def load(model: Path) -> None:
    config_in_cache(Model(name=str(model)))
    load_processor(str(model), pictures=False)


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("file", sorted(OBJECTS.keys() - {"adapter_config.json"}))
def test_a_broken_file_of_a_model_is_named(file: str, fault: str, model: Path) -> None:
    change, problem = BROKEN[fault]
    change(model / file)
    with pytest.raises(InputError, match=problem) as error:
        load(model)
    assert str(error.value).startswith(f"{file} of {model} ")


@pytest.mark.parametrize(("file", "change", "problem"), WRONG)
def test_a_value_of_another_form_is_named_with_its_file(
    file: str, change: Break, problem: str, model: Path
) -> None:
    change(model / file)
    with pytest.raises(InputError) as error:
        load(model)
    assert file in str(error.value) and problem in str(error.value)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_adapter_config_is_named(fault: str, tmp_path: Path) -> None:
    change, problem = BROKEN[fault]
    change(tmp_path / "adapter_config.json")
    with pytest.raises(InputError, match=problem) as error:
        with_adapter(None, tmp_path)
    assert str(error.value).startswith("adapter_config.json of ")


def test_a_broken_template_is_nothing_to_a_run_that_borrows_another(model: Path) -> None:
    (model / "chat_template.jinja").write_text("{% if %}")
    assert load_processor(str(model), pictures=False, template="qwen3").chat_template


def test_the_files_as_they_were_published_are_whole(model: Path) -> None:
    load(model)
