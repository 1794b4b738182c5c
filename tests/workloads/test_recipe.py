"""Recipes: what is read and what is rejected. No library of training is imported."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from finetune.settings.recipe import RECIPES, Recipe, load_recipe
from shared.recipe_file import RecipeError, section_in


@pytest.fixture
def tree() -> dict[str, Any]:
    return yaml.safe_load((RECIPES / "gemma-3-4b-vision.yaml").read_text())


def message(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(str(path))
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def refused(tmp_path: Path, tree: object) -> str:
    return message(tmp_path, yaml.safe_dump(tree))


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_every_shipped_recipe_loads_by_its_name(name: str) -> None:
    assert load_recipe(name).model.name


@pytest.mark.parametrize("name", sorted(path.stem for path in RECIPES.glob("*.yaml")))
def test_a_shipped_recipe_states_no_default_but_those_that_everybody_looks_for(name: str) -> None:
    sections = yaml.safe_load((RECIPES / f"{name}.yaml").read_text())
    stated = set()
    for section, values in sections.items():
        kind = section_in(Recipe.model_fields[section].annotation)
        stated |= {key for key, value in values.items() if kind.model_fields[key].get_default() == value}
    assert stated <= {"epochs", "learning_rate"}


def test_a_default_that_is_written_out_trains_the_same_run(tmp_path: Path, tree: dict[str, Any]) -> None:
    """The names of runs and the figures of `make gpu-fit` come from digests of the recipe."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(tree))
    short = load_recipe(str(path))
    tree["lora"] |= {"dropout": 0, "rank": 16}
    tree["training"] |= {"weight_decay": 0, "warmup_steps": 0, "gradient_checkpointing": False}
    path.write_text(yaml.safe_dump(tree))
    long = load_recipe(str(path))
    assert json.dumps(short.to_dict()) == json.dumps(long.to_dict())
    assert short.memory_digest == long.memory_digest


def test_a_run_of_a4_accelerate_is_saved_on_the_way() -> None:
    recipe = load_recipe("gemma-3-12b-text-to-sql")
    steps = (recipe.data.limit or 0) // recipe.training.batch // 8  # GPUs of the node
    assert recipe.training.save_every_steps < steps


def test_a_misspelt_key_is_refused_with_the_right_one(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["lora"]["rnak"] = 16
    del tree["data"]["name"], tree["model"]["name"]
    text = refused(tmp_path, tree)
    assert "unknown key lora.rnak (did you mean rank?)" in text
    assert "model.name is missing" in text


def test_all_problems_are_told_at_once(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["trainings"] = tree["training"] | {"epochs": 0}
    tree["training"]["batch_size"] = "four"
    tree["training"]["seed"] = -1
    tree["model"]["precision"] = "fp16"
    tree["lora"]["dropout"] = 1
    text = refused(tmp_path, tree)
    for problem in (
        "unknown key trainings (did you mean training?)",
        "training.batch_size must be a valid integer, not 'four'",
        "training.seed must be greater than or equal to 0, not -1",
        "model.precision must be 'bf16' or 'fp32', not 'fp16'",
        "lora.dropout must be less than 1, not 1",
    ):
        assert problem in text


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("epochs", True, "training.epochs must be a valid integer, not True"),
        ("epochs", 0, "training.epochs must be greater than 0, not 0"),
        ("gradient_checkpointing", 1, "training.gradient_checkpointing must be a valid boolean, not 1"),
        ("max_grad_norm", None, "training.max_grad_norm must be a valid number, not None"),
        (
            "schedule",
            ["constant"],
            "training.schedule must be 'constant', 'constant_with_warmup', 'linear' or 'cosine', "
            "not ['constant']",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    tmp_path: Path, tree: dict[str, Any], key: str, value: object, problem: str
) -> None:
    tree["training"][key] = value
    assert problem in refused(tmp_path, tree)


@pytest.mark.parametrize(
    ("section", "key", "values"),
    [
        ("model", "name", ["a/b\nid", "../../x", "a/../b", "https://host/x", "gs://bucket/x", "--x"]),
        ("data", "name", ["a/b\x1b[2J", "..", "file:///etc/passwd"]),
        ("model", "revision", ["main;id", "../x", "$(id)", "a b", "-x", "refs/../x", "main\n"]),
        ("training", "report_to", [["os.system"], ["wandb\n"], ["a;b"], [""]]),
        ("training", "hub_model_id", ["a/b;id", "a/$(id)", "a/..", "", "-x"]),
    ],
)
def test_a_name_that_is_none_is_refused(
    tmp_path: Path, tree: dict[str, Any], section: str, key: str, values: list[Any]
) -> None:
    for value in values:
        changed = {**tree, section: tree[section] | {key: value}}
        assert f"{section}.{key}" in refused(tmp_path, changed), value


@pytest.mark.parametrize("name", ["google/gemma-3-4b-it", "gpt2", "/a folder/model", "./model"])
def test_an_id_of_the_hub_and_a_directory_are_names(tmp_path: Path, tree: dict[str, Any], name: str) -> None:
    tree["model"]["name"] = name
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(tree))
    assert load_recipe(str(tmp_path / "mine.yaml")).model.name == name


def test_a_number_without_a_point_is_a_number(tmp_path: Path, tree: dict[str, Any]) -> None:
    """PyYAML reads 2e-4 as a text."""
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(tree | {"training": tree["training"] | {"learning_rate": "2e-4"}}))
    assert "learning_rate: 2e-4" in path.read_text()
    assert load_recipe(str(path)).training.learning_rate == 0.0002


def test_a_placeholder_without_a_column_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["data"]["prompt"] = "Describe {prodct} of {category}"
    text = refused(tmp_path, tree)
    assert "data.prompt uses {prodct}, which data.fields does not name (did you mean product?)" in text
    assert "data.fields.product is not used in data.prompt" in text


def test_a_placeholder_is_the_name_of_its_column_by_default(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = 'model: {name: m/m}\ndata:\n  name: d/d\n  prompt: "Answer: {question}"\n  reply: answer\n'
    path.write_text(text)
    data = load_recipe(str(path)).data
    assert data.fields == {"question": "question"}
    assert data.columns == ["question", "answer"]


@pytest.mark.parametrize("placeholder", ["row.title", "rows[0]", "0", ""])
def test_a_placeholder_that_is_no_name_is_refused(tmp_path: Path, placeholder: str) -> None:
    text = 'model: {name: m/m}\ndata:\n  name: d/d\n  prompt: "Answer: {%s}"\n  reply: answer\n'
    assert f"data.prompt uses {{{placeholder}}}, which data.fields does not name" in message(
        tmp_path, text % placeholder
    )


def test_an_empty_text_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["data"]["name"] = "  "
    assert "data.name is empty" in refused(tmp_path, tree)


def test_a_section_that_is_no_mapping_is_refused(tmp_path: Path, tree: dict[str, Any]) -> None:
    tree["lora"] = 16
    assert "lora must be a mapping of keys, not 16" in refused(tmp_path, tree)
    assert "the file must be a mapping of keys, not ['model']" in refused(tmp_path, ["model"])


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    assert "key 'rank' is given twice" in message(tmp_path, "lora:\n  rank: 8\n  rank: 16\n")


def test_a_section_that_is_only_merged_elsewhere_is_told_its_name(tmp_path: Path) -> None:
    merged = "defaults: &d\n  rank: 8\nlora:\n  <<: *d\nrank: 7\n"
    problem = message(tmp_path, merged)
    assert "unknown key defaults (call it x-defaults if it only holds what other keys merge by <<)" in problem
    assert "unknown key rank;" in f"{problem};"
    assert "unknown key" not in message(
        tmp_path, merged.replace("defaults", "x-defaults").replace("rank: 7", "")
    )


def test_broken_yaml_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "is not valid YAML" in message(tmp_path, "model: [unclosed\n")


def text_tree(**training: Any) -> dict[str, Any]:
    """A recipe of rows of text on 4-bit weights."""
    tree = yaml.safe_load((RECIPES / "gemma-3-1b-emoji.yaml").read_text())
    tree["model"]["quantization"] = "nf4"
    tree["training"] |= training
    return tree


@pytest.mark.parametrize(
    ("section", "changes", "problem"),
    [
        ("training", {"max_length": 0}, "training.max_length must be greater than 0, not 0"),
        ("training", {"max_length": "long"}, "training.max_length must be a valid integer, not 'long'"),
        ("training", {"sharding": "fsdp2"}, "training.sharding fsdp2 cannot shard nf4 weights"),
        ("training", {"schedule": "constant", "warmup_steps": 0.1}, "training.warmup_steps has no effect on"),
        (
            "training",
            {"weight_decay": -1},
            "training.weight_decay must be greater than or equal to 0, not -1",
        ),
        ("training", {"result": "both"}, "training.result must be 'adapter' or 'model', not 'both'"),
        ("data", {"image": "picture"}, "training.packing packs text; with data.image it must be false"),
        ("data", {"image": "picture"}, "training.max_length counts tokens of text; with data.image"),
        ("data", {"rows": 0}, "data.rows must be greater than 0, not 0"),
        ("data", {"system": ""}, "data.system is empty"),
        ("data", {"name": ""}, "data.name, a data set, or data.files must be given, not both"),
        ("data", {"files": ["a.jsonl"]}, "data.name, a data set, or data.files must be given, not both"),
        ("data", {"name": "", "files": ["a.txt"]}, "a.txt is no JSON lines, JSON, CSV or parquet"),
        ("data", {"name": "", "files": ["a.jsonl"], "config": "b"}, "data.config is of a data set, and"),
        ("data", {"name": "", "files": ["a.jsonl"], "revision": "b"}, "data.revision is of the Hub, and"),
        ("data", {"messages": "messages"}, "data.messages are whole conversations; fields, prompt, "),
        ("data", {"prompt": "", "fields": {}}, "data.reply and data.prompt, or data.messages, or data.text,"),
    ],
)
def test_text_settings_that_make_no_sense_are_refused(
    tmp_path: Path, section: str, changes: dict[str, Any], problem: str
) -> None:
    tree = text_tree()
    tree[section] |= changes
    assert problem in refused(tmp_path, tree)


def test_evaluation_needs_rows_to_evaluate_on(tmp_path: Path) -> None:
    tree = text_tree(evaluate_every_steps=10)
    tree["data"]["test_rows"] = 0
    assert "training.evaluate_every_steps needs data.test_rows" in refused(tmp_path, tree)


def test_an_override_takes_the_place_of_what_the_file_says() -> None:
    changed = load_recipe(
        "gemma-3-1b-emoji",
        [
            "training.learning_rate=1e-4",
            "training.epochs=2",
            "training.packing=false",
            "training.max_length=null",
            "data.rows=",
            "data.prompt=Emoji, please: {text}",
            "data.fields.text=topic",
        ],
    )
    training = changed.training
    assert (training.learning_rate, training.epochs, training.packing) == (1e-4, 2, False)
    assert (training.max_length, changed.data.rows) == (None, None)
    assert changed.data.prompt == "Emoji, please: {text}"
    assert changed.data.fields == {"text": "topic"}
    assert changed.lora == load_recipe("gemma-3-1b-emoji").lora
    assert load_recipe("gemma-3-1b-emoji", ["data.fields={text: topic}"]).data.fields == {"text": "topic"}
    own = ["data.name=", "data.files=[gs://bucket/a.jsonl, b.jsonl]"]
    assert load_recipe("gemma-3-1b-emoji", own).data.files == ["gs://bucket/a.jsonl", "b.jsonl"]


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        (
            "training.learning_rat=1e-4",
            "unknown key training.learning_rat (did you mean learning_rate?)",
        ),
        ("trainin.epochs=1", "unknown key trainin (did you mean training?)"),
        ("data.name.x=1", "unknown key data.name.x"),
        ("training.epochs", "'training.epochs' must be KEY=VALUE, for example training.epochs=1"),
        ("training.epochs=many", "training.epochs must be a valid integer, not 'many'"),
        ("training.epochs=[1", "training.epochs must be a valid integer, not '[1'"),
        ("training.learning_rate=fast", "training.learning_rate must be a valid number, not 'fast'"),
        ("training=none", "training must be a mapping of keys, not 'none'"),
        ("data.fields.texts=text", "data.fields.texts is not used in data.prompt"),
    ],
)
def test_an_override_is_checked_like_the_file(override: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("gemma-3-1b-emoji", [override])
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_recipe_is_refused_with_a_near_name() -> None:
    with pytest.raises(
        RecipeError, match=r"no recipe 'gemma-3-4b-vison' \(did you mean gemma-3-4b-vision\?\)"
    ):
        load_recipe("gemma-3-4b-vison")
    with pytest.raises(RecipeError, match=r"recipe file .*absent\.yaml does not exist$"):
        load_recipe("/nowhere/absent.yaml")


def test_a_path_without_its_ending_is_refused_with_the_file_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(RecipeError, match=rf"mine does not exist \(did you mean {tmp_path}/mine\.yaml\?\)"):
        load_recipe(f"{tmp_path}/mine")
    with pytest.raises(RecipeError, match=r"any other is given by its path, such as \./mine\.yaml"):
        load_recipe("mine")
