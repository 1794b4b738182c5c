"""A run that trains a preference: its rows, its figures, its resume, its result, and what it refuses."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from launches import local, torchrun
from outcomes import losses, metrics
from published import FAMILIES, make_published
from test_published import FEW, start
from trial_command import Ended

from conversations import pairs
from conversations.columns import RowError
from finetune.__main__ import main
from finetune.settings.recipe import Recipe, load_recipe
from finetune.settings.sections import Data
from finetune.settings.tasks import NOT_BUILT, PREFERENCE_PASSED_ON, PREFERENCE_REFUSED
from finetune.settings.trl_fields import PASSED_ON, REFUSED, SET_BY_RUN
from trial.stages import STOPPED, WHOLE, resume_and_publish, train_until_stop, train_without_stop

ROOT = Path(__file__).parents[2]
ASKED = [{"role": "user", "content": "Which fruit?"}]
GOOD, BAD = {"role": "assistant", "content": "a pear"}, {"role": "assistant", "content": "a stone"}
TEXTS = {"prompt": "{prompt}", "reply": "chosen", "rejected": "rejected"}
WHOLE_ONES = {"messages": "chosen", "rejected": "rejected"}
APART = {"messages": "prompt", "reply": "chosen", "rejected": "rejected"}
SHARE_GPT = [{"from": "human", "value": "Which fruit?"}]
# What a recipe says, and a row, in the forms that people have.
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "texts": (TEXTS, {"prompt": "Which fruit?", "chosen": "a pear", "rejected": "a stone"}),
    "Argilla's texts": (
        {"prompt": "{instruction}", "reply": "chosen_response", "rejected": "rejected_response"},
        {"instruction": "Which fruit?", "chosen_response": "a pear", "rejected_response": "a stone"},
    ),
    "UltraFeedback": (
        WHOLE_ONES,
        {"prompt": "Which fruit?", "chosen": [*ASKED, GOOD], "rejected": [*ASKED, BAD], "score_chosen": 8.0},
    ),
    "a text and turns": (TEXTS, {"prompt": "Which fruit?", "chosen": [GOOD], "rejected": [BAD]}),
    "trl's explicit prompt": (APART, {"prompt": ASKED, "chosen": [GOOD], "rejected": [BAD]}),
    "turns and texts": (APART, {"prompt": ASKED, "chosen": "a pear", "rejected": "a stone"}),
    "ShareGPT": (
        APART,
        {
            "prompt": SHARE_GPT,
            "chosen": {"from": "gpt", "value": "a pear"},
            "rejected": {"from": "gpt", "value": "a stone"},
        },
    ),
    "OpenAI": (
        {"messages": "input", "reply": "preferred_output", "rejected": "non_preferred_output"},
        {
            "input": {"messages": ASKED, "tools": []},
            "preferred_output": [GOOD],
            "non_preferred_output": [BAD],
        },
    ),
    "JSON texts": (
        WHOLE_ONES,
        {"chosen": json.dumps([*ASKED, GOOD]), "rejected": json.dumps([*ASKED, BAD])},
    ),
}
HH_RLHF = "\n\nHuman: Which fruit?\n\nAssistant: "
# The same for rows that are left out, and why.
LEFT_OUT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "HH-RLHF": (
        WHOLE_ONES,
        {"chosen": f"{HH_RLHF}a pear", "rejected": f"{HH_RLHF}a stone"},
        "as HH-RLHF has",
    ),
    "the same replies": (TEXTS, {"prompt": "?", "chosen": "a", "rejected": "a"}, pairs.SAME),
    "an empty reply": (TEXTS, {"prompt": "?", "chosen": "a", "rejected": " "}, "is empty"),
    "no rejected one": (WHOLE_ONES, {"chosen": [*ASKED, GOOD], "rejected": None}, "is empty"),
    "other questions": (
        WHOLE_ONES,
        {"chosen": [*ASKED, GOOD], "rejected": [{"role": "user", "content": "Why?"}, BAD]},
        pairs.DIFFERENT,
    ),
    "OpenAI's, with tools": (
        {"messages": "input", "reply": "preferred_output", "rejected": "non_preferred_output"},
        {
            "input": {"messages": ASKED, "tools": [{"type": "function"}]},
            "preferred_output": [GOOD],
            "non_preferred_output": [BAD],
        },
        "input has messages and tools",
    ),
    "whole conversations as replies": (
        TEXTS,
        {"prompt": "?", "chosen": [GOOD, *ASKED, GOOD], "rejected": [BAD]},
        "write messages: COLUMN of the chosen one",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_pairs_that_people_have_is_read(form: str) -> None:
    columns, row = FORMS[form]
    data = Data.model_validate({"name": "a/b", **columns})
    read = pairs.read(data, row)
    assert (read.turns, read.rejected) == ([*ASKED, GOOD], BAD)
    assert not data.missing_columns(row)


@pytest.mark.parametrize("form", LEFT_OUT)
def test_a_pair_that_cannot_be_trained_is_left_out_with_a_reason(form: str) -> None:
    columns, row, reason = LEFT_OUT[form]
    with pytest.raises(RowError, match=reason):
        pairs.read(Data.model_validate({"name": "a/b", **columns}), row)


def keys_of(columns: dict[str, Any]) -> str:
    texts = {key: json.dumps(value) if key == "prompt" else value for key, value in columns.items()}
    return ", ".join(f"`{key}: {value}`" for key, value in texts.items())


def test_the_page_has_the_forms() -> None:
    rows = [f"| {form} | {keys_of(columns)} |\n" for form, (columns, _) in FORMS.items()]
    assert "".join(rows) in (ROOT / "docs/training/methods.md").read_text()


def test_the_example_is_trained_as_it_stands(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "examples/preference/my-pairs.yaml"
    model = f"--set=model.name={tiny / 'text-model'}"
    assert main(["local", f"--recipe={example}", model, "--dry-run"]) == 0
    assert "rows       8 of" in capsys.readouterr().out


def preference(tiny: Path, folder: Path, **sections: Any) -> Path:
    """A recipe for a tiny model, and eight pairs in a file beside it, which prefer the row's emoji."""
    model = folder / "model"
    if not model.exists():
        make_published(FAMILIES[FEW], model)
    emoji = [f"emoji {number}" for number in range(12)]
    rows = [
        {"text": f"text {number}", "chosen": text, "rejected": emoji[number - 1]}
        for number, text in enumerate(emoji)
    ]
    (folder / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    tree: dict[str, Any] = {
        "task": "preference",
        "model": {"name": str(model), "precision": "fp32"},
        "lora": {"rank": 4},
        "data": {
            "files": ["pairs.jsonl"],
            "rows": 8,
            "test_rows": 4,
            "prompt": "{text}",
            "reply": "chosen",
            "rejected": "rejected",
        },
        "training": {
            "batch_size": 2,
            "gradient_checkpointing": False,
            "loader_processes": 0,
            "learning_rate": 0.01,
            "log_every_steps": 1,
            "save_every_steps": 1,
            "result": "model",
        },
        "evaluation": {"rows": 2, "max_new_tokens": 4},
    }
    for name, section in sections.items():
        tree[name] = tree[name] | section
    (folder / "recipe.yaml").write_text(yaml.safe_dump(tree))
    return folder / "recipe.yaml"


def test_a_preference_is_learned_and_a_stop_changes_nothing(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = load_recipe(str(preference(tiny, tmp_path, training={"epochs": 3})))
    train_until_stop(recipe, tmp_path)
    resume_and_publish(recipe, tmp_path)
    # Raises for another figure or another weight.
    train_without_stop(recipe, tmp_path)
    lines = metrics(tmp_path / WHOLE)
    steps = [line for line in lines if "loss" in line]
    # The policy is the reference before the first step: log 2, no margin.
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-4) and steps[0]["reward_margin"] == 0
    assert steps[-1]["reward_margin"] > 0 and steps[-1]["loss"] < steps[0]["loss"]
    (evaluation,) = (line for line in lines if "eval_loss" in line and line["step"] == len(steps))
    assert {"eval_reward_accuracy", "eval_reward_margin"} <= evaluation.keys()
    assert {"adapter", "model"} <= {path.name for path in (tmp_path / STOPPED).iterdir()}
    out = capsys.readouterr().out
    assert " preferred " in out and " margin " in out and 'and it is to avoid: "emoji ' in out


def test_the_loss_is_that_of_the_paper_over_what_the_reply_alone_has(tiny: Path, tmp_path: Path) -> None:
    """With the probabilities of each reply, summed by another way, before and after two steps."""
    import torch
    from torch.nn.functional import logsigmoid

    from finetune.model.loading import load_model, load_processor
    from finetune.results.result import load_trained
    from finetune.rows.data import load_conversations
    from finetune.rows.pair_tokens import CHOSEN, PROMPT, REJECTED, to_pair_tokens

    path = preference(tiny, tmp_path, training={"beta": 0.5})
    assert start(path) == 0
    recipe, cpu = load_recipe(str(path)), torch.device("cpu")
    reference = load_model(recipe.model, cpu).eval()
    trained = load_trained(recipe, tmp_path / "store/mine/adapter", cpu).eval()
    _, test_rows = load_conversations(recipe.data, recipe.training.rows_seed)
    assert test_rows

    def reward(prompt: list[int], reply: list[int]) -> Any:
        tokens, sums = torch.tensor([prompt + reply]), list[Any]()
        for model in (trained, reference):
            with torch.no_grad():
                written = model(tokens).logits.log_softmax(-1)[0, len(prompt) - 1 : -1]
            sums.append(sum(written[place, token] for place, token in enumerate(reply)))
        return sums[0] - sums[1]

    losses = [
        -logsigmoid(0.5 * (reward(row[PROMPT], row[CHOSEN]) - reward(row[PROMPT], row[REJECTED])))
        for row in to_pair_tokens(test_rows, load_processor(recipe.model.name, False), None)
    ]
    complete = json.loads((tmp_path / "store/mine/COMPLETE.json").read_text())
    assert complete["evaluation"]["eval_loss"] == pytest.approx(float(sum(losses) / len(losses)), abs=1e-4)


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_with_as_many_pairs_a_step(
    warm: str, tiny: Path, tmp_path: Path
) -> None:
    settings = {"batch_size": 1, "result": "adapter"}
    both = preference(tiny, tmp_path, training=settings)
    assert torchrun(warm, both, tmp_path, {"arguments": local(both, tmp_path, "mine")})[0] == 0
    (tmp_path / "one").mkdir()
    model = {"name": str(tmp_path / "model")}
    alone = preference(tiny, tmp_path / "one", training=settings | {"accumulation_steps": 2}, model=model)
    assert start(alone) == 0
    assert losses(tmp_path / "mine") == pytest.approx(losses(tmp_path / "one/store/mine"), abs=1e-5)


def test_a_preference_goes_on_from_an_adapter_which_stays_its_reference(tiny: Path, tmp_path: Path) -> None:
    """An adapter of a fine-tune of the chosen replies."""
    path = preference(tiny, tmp_path)
    fine_tune = {"task": "fine-tune", "data": {"rejected": None}}
    tree = yaml.safe_load(path.read_text())
    tree = tree | {"task": "fine-tune", "data": tree["data"] | fine_tune["data"]}
    (tmp_path / "fine-tune.yaml").write_text(yaml.safe_dump(tree))
    assert start(tmp_path / "fine-tune.yaml") == 0
    path = preference(tiny, tmp_path, model={"adapter": str(tmp_path / "store/mine")})
    tree = yaml.safe_load(path.read_text())
    del tree["lora"]
    path.write_text(yaml.safe_dump(tree))
    recipe = load_recipe(str(path))
    train_until_stop(recipe, tmp_path)
    resume_and_publish(recipe, tmp_path)
    train_without_stop(recipe, tmp_path)
    steps = [line for line in metrics(tmp_path / WHOLE) if "loss" in line]
    assert steps[0]["loss"] == pytest.approx(0.6931, abs=1e-4)
    assert not [*(tmp_path / STOPPED).glob("*/ref")]


@pytest.mark.slow
def test_a_dry_run_and_a_trial_take_pairs(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], tried: Callable[..., Ended]
) -> None:
    recipe = preference(tiny, tmp_path, training={"result": "adapter"})
    assert start(recipe, "--dry-run") == 0
    assert "steps      4: epochs 1, batch 2" in capsys.readouterr().out
    ended = tried(recipe, f"--storage={tmp_path}/trials")
    assert ended.code == 0 and "passed its trial" in ended.out, ended.err


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"lora": None, "training": {"result": "model"}}, "task preference needs lora"),
        ({"lora": {"dropout": 0.1}}, "lora.dropout does nothing"),
        ({"data": {"rejected": None}}, "needs data.rejected"),
        ({"data": {"text": "a"}}, "data.text and data.image must be left out"),
        ({"data": {"image": "a"}}, "data.text and data.image must be left out"),
        ({"data": {"trained_replies": "last"}}, "data.trained_replies does nothing"),
        ({"training": {"packing": True, "max_length": 9}}, "training.packing must be false"),
        ({"training": {"sharding": "fsdp2"}}, "training.sharding must be none"),
        ({"task": "fine-tune"}, "data.rejected is of pairs of replies"),
        ({"task": "fine-tune", "training": {"beta": 0.2}}, "training.beta is of pairs"),
        *(({"task": task}, f"{task} is not built: {reason[:30]}") for task, reason in NOT_BUILT.items()),
        *(
            ({"training": {"trl": {name: True}}}, f"training.trl.{name} is refused")
            for name in PREFERENCE_REFUSED
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_a_sentence(changes: dict[str, Any], problem: str) -> None:
    tree: dict[str, Any] = {
        "task": "preference",
        "model": {"name": "a/b"},
        "lora": {},
        "data": {"name": "c/d", **TEXTS},
        "training": {},
    }
    assert Recipe.model_validate(tree).training.learning_rate == 1e-5
    for name, value in changes.items():
        tree[name] = tree[name] | value if isinstance(value, dict) else value
    with pytest.raises(ValueError, match=problem.replace("(", "\\(")):
        Recipe.model_validate(tree)


def test_every_setting_of_trl_for_pairs_is_in_one_of_the_tables() -> None:
    from trl import DPOConfig, SFTConfig

    shared = {*SET_BY_RUN, *REFUSED, *PASSED_ON}
    of_pairs = {field.name for field in fields(DPOConfig)}
    assert of_pairs - shared <= PREFERENCE_REFUSED.keys() | PREFERENCE_PASSED_ON
    assert PREFERENCE_REFUSED.keys() | PREFERENCE_PASSED_ON <= of_pairs
    assert {field.name for field in fields(SFTConfig)} <= shared


def test_another_loss_reaches_trl_and_its_errors_are_one_line(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from finetune.run.training import trainer_arguments

    path = preference(tiny, tmp_path, training={"trl": {"loss_type": ["ipo"]}, "beta": 0.3})
    arguments: Any = trainer_arguments(load_recipe(str(path)), tmp_path)
    assert (arguments.loss_type, arguments.beta) == (["ipo"], 0.3)
    assert start(preference(tiny, tmp_path, training={"trl": {"losses": 1}}), "--dry-run") == 2
    assert "training.trl: " in capsys.readouterr().err.splitlines()[-1]


def test_an_adapter_of_the_output_layer_is_refused_because_trl_reads_its_weights_directly(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lora = {"target_modules": ".*(q_proj|lm_head)"}
    recipe = preference(tiny, tmp_path, lora=lora, training={"result": "adapter"})
    assert start(recipe, "--dry-run") == 2
    assert "matches the output layer" in capsys.readouterr().err.splitlines()[-1]
