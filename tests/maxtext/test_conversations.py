"""Fine-tuning on conversations: which tokens count, how many steps, and a run from weights to result."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_hugging_face import NAME, TINY, maxtext_logits, recipe_of, transformers_logits
from tiny import WORDS

from conversations.chat_template import Row
from maxtext_driver import __main__ as command
from maxtext_driver.conversation_rows import FOLDER, RECORD, rows_of, with_steps
from maxtext_driver.recipe import load_recipe
from maxtext_driver.run_folder import RunFolder
from rehearsal.stand_ins.hub import Hub
from shared.errors import InputError
from shared.exit_codes import Exit

TEMPLATE = (
    "{{ bos_token }}{% for turn in messages %}<{{ turn.role }}> {{ turn.content }} {{ eos_token }} "
    "{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)
ROLES = ("system", "user", "assistant", "tool")
ROWS, TESTS, LENGTH, BATCH = 40, 6, 32, 2


def make_tokenizer(folder: Path) -> None:
    """A tokenizer with one token per word and role, and a chat template."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = ["<unk>", "<s>", "</s>", "<pad>", *(f"<{role}>" for role in ROLES)]
    vocabulary = {token: number for number, token in enumerate([*special, *sorted(WORDS)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    own = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **names, additional_special_tokens=special[4:], chat_template=TEMPLATE
    )
    own.save_pretrained(folder)


def make_rows(folder: Path) -> None:
    """Conversations of one to three rounds, for training in Parquet, for the evaluation in JSON lines."""
    import pyarrow
    import pyarrow.parquet

    choice = random.Random(3)

    def talk() -> list[dict[str, str]]:
        def turn(role: str, most: int) -> dict[str, str]:
            return {"role": role, "content": " ".join(choice.choices(WORDS, k=choice.randint(1, most)))}

        system = [turn("system", 3)] if choice.random() < 0.5 else []
        rounds = range(choice.randint(1, 3))
        return [*system, *(turn(role, 3) for _ in rounds for role in ("user", "assistant"))]

    talks = [talk() for _ in range(ROWS)]
    pyarrow.parquet.write_table(pyarrow.table({"messages": talks}), folder / "train.parquet")
    lines = [json.dumps({"messages": talk()}) for _ in range(TESTS)]
    (folder / "eval.jsonl").write_text("".join(f"{line}\n" for line in lines))


def recipe_on(folder: Path, **settings: Any) -> Path:
    """A recipe that fine-tunes the tiny model on the rows of a folder, twice."""
    path = recipe_of(
        folder,
        **{
            "use_sft": True,
            "dataset_type": "grain",
            "grain_train_files": str(folder / "train.parquet"),
            "grain_eval_files": str(folder / "eval.jsonl"),
            "num_epoch": 2,
            "max_target_length": LENGTH,
            "per_device_batch_size": BATCH,
            "learning_rate": 1e-3,
            "checkpoint_period": 5,
            **settings,
        },
    )
    tree = yaml.safe_load(path.read_text())
    del tree["maxtext"]["steps"]
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A folder with the configuration and the tokenizer of a model."""
    folder = tmp_path / "model"
    make_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", **TINY}))
    return folder


def test_only_tokens_that_the_model_writes_are_targets_and_rows_do_not_see_each_other() -> None:
    from maxtext_driver.conversation_rows import pack
    from maxtext_driver.packs import Packs

    row, other = Row([1, 7, 8, 9], [False, False, True, True]), Row([1, 5, 6], [False, True, True])
    packs = Packs(pack([row, other], 8), multiple=2)
    (sequence, empty) = (packs[at] for at in range(len(packs)))
    assert sequence["inputs"].tolist() == [1, 7, 8, 9, 1, 5, 6, 0]
    assert sequence["inputs_segmentation"].tolist() == [1, 1, 1, 1, 2, 2, 2, 0]
    assert sequence["inputs_position"].tolist() == [0, 1, 2, 3, 0, 1, 2, 0]
    trained = sequence["targets_segmentation"] != 0
    assert trained.tolist() == [False, True, True, False, True, True, False, False]
    assert sequence["targets"][trained].tolist() == [8, 9, 5, 6]
    assert not empty["targets_segmentation"].any()
    assert not empty["inputs_segmentation"].any()


def test_the_rows_say_how_many_steps_there_are_and_when_the_loss_is_evaluated(tmp_path: Path) -> None:
    run = RunFolder(tmp_path, "mine")
    recipe = load_recipe(str(recipe_on(tmp_path)))
    assert with_steps(recipe, run, 4) == recipe
    (run.path / FOLDER).mkdir(parents=True)
    run.write_text(RECORD, json.dumps({"train_sequences": 21, "eval_sequences": 9}))
    settings = with_steps(recipe, run, 4).maxtext
    # 42 sequences in batches of 8.
    assert (settings["steps"], settings["eval_interval"], settings["eval_steps"]) == (6, 5, 2)
    settings = load_recipe(str(recipe_on(tmp_path))).maxtext
    fixed = recipe.model_copy(update={"maxtext": {**settings, "steps": 3, "eval_interval": 2}})
    assert with_steps(fixed, run, 4).maxtext == {**fixed.maxtext, "eval_steps": 2}


@pytest.mark.parametrize(
    ("rows", "settings", "message"),
    [
        (
            ["user"],
            {},
            r"row 0 \(the first is 0\): messages must be system or developer, if any",
        ),
        (
            ["user", "assistant"],
            {"max_target_length": 4},
            "all 1 rows for train are longer than max_",
        ),
        (
            ["system", "critic"],
            {},
            "1 of 1 rows of grain_train_files cannot be trained",
        ),
    ],
)
def test_conversations_that_cannot_be_trained_are_message(
    rows: list[str], settings: dict[str, Any], message: str, model: Path, tmp_path: Path
) -> None:
    talk = [{"role": role, "content": "the cat"} for role in rows]
    (tmp_path / "train.jsonl").write_text(json.dumps({"messages": talk}))
    files = {"grain_train_files": str(tmp_path / "train.jsonl"), "grain_eval_files": ""}
    recipe = load_recipe(str(recipe_on(tmp_path, **files, **settings)))
    with pytest.raises(InputError, match=message):
        rows_of(recipe, model)


def test_long_rows_are_left_out_and_counted(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_rows(tmp_path)
    rows = rows_of(load_recipe(str(recipe_on(tmp_path, max_target_length=16))), model).parts
    left = len(rows["train"])
    assert 0 < left < ROWS
    message = f"{ROWS - left} of {ROWS} rows for train are left out: longer than max_target_length, 16 tokens"
    assert message in capsys.readouterr().out


@pytest.fixture
def published(hub: Hub, tmp_path: Path) -> Iterator[Path]:
    """A folder with weights and a tokenizer, which are on the Hub."""
    folder = tmp_path / "published"
    transformers_logits(folder, TINY)
    make_tokenizer(folder)
    hub.model(NAME).push(folder)
    yield folder
    hub.reset()


@pytest.mark.slow
def test_a_run_on_conversations_that_was_stopped_ends_as_one_without_a_stop_and_its_result_loads(
    published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    ray.init(num_cpus=2, include_dashboard=False)
    monkeypatch.setattr(command, "dry_run", lambda _: 0)
    make_rows(tmp_path)
    path = recipe_on(tmp_path)
    submit = ["--recipe", str(path), "--output", str(tmp_path), "--workers", "1"]
    try:
        assert command.main([*submit, "--run", "whole"]) == Exit.FINISHED
        assert command.main([*submit, "--run", "stopped", "--max-run-hours=1e-9"]) == Exit.LIMIT_REACHED
        saved = RunFolder(tmp_path, "stopped").steps_saved()
        assert command.main([*submit, "--run", "stopped"]) == Exit.FINISHED
    finally:
        ray.shutdown()
    whole, stopped = (RunFolder(tmp_path, name) for name in ("whole", "stopped"))
    steps = with_steps(load_recipe(str(path)), whole, 1).steps
    assert 0 < saved < steps
    assert figures(stopped, "loss") == {
        step: loss for step, loss in figures(whole, "loss").items() if step in figures(stopped, "loss")
    }
    file = "model.safetensors"
    assert (stopped.exported / file).read_bytes() == (whole.exported / file).read_bytes()
    evaluated = figures(whole, "eval_loss")
    assert [*evaluated] == [1, steps]
    assert evaluated[steps] < evaluated[1]
    trained = maxtext_logits(load_recipe(str(path)), whole.path / "checkpoints" / str(steps - 1))
    assert transformers_logits(whole.exported) == pytest.approx(trained, abs=1e-4)
    assert TEMPLATE in "".join(file.read_text() for file in whole.exported.glob("*.jinja"))


def figures(run: RunFolder, name: str) -> dict[int, float]:
    """A figure of the run's metrics, by step."""
    lines = map(json.loads, (run.path / "metrics.jsonl").read_text().splitlines())
    return {line["step"]: line[name] for line in lines if name in line}
