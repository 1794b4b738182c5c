"""The trained model answers held-out rows, which the training does not notice."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from outcomes import losses, metrics

from finetune.__main__ import main
from finetune.settings.sections import Evaluation
from rehearsal.running_pods.tiny import SPECIAL_TOKENS, TOKENS_PER_IMAGE, make_recipe

TOKENS = 6
BOS, PICTURE = map(SPECIAL_TOKENS.index, ("<bos>", "<image_soft_token>"))


@pytest.fixture(scope="module")
def store(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run `mine` of four steps, which answers after the second too, and not well enough."""
    store = tmp_path_factory.mktemp("answers")
    with redirect_stdout(StringIO()) as output:
        assert main(run(recipe(tiny, store, "mine", good={"overlap": 0, "exact": 1}), "mine")) == 0
    (store / "output").write_text(output.getvalue())
    return store


def recipe(tiny: Path, store: Path, name: str, shipped: str = "gemma-3-1b-emoji", **evaluation: Any) -> Path:
    path = make_recipe(store / f"{name}.yaml", tiny, shipped, batch_size=1)
    tree = yaml.safe_load(path.read_text())
    tree["data"] |= {"rows": 12, "test_rows": 3} if tree["data"].get("image") else {}
    few = {"judge": "emoji", "rows": 3, "max_new_tokens": TOKENS, "every_steps": 2}
    tree["evaluation"] = few | evaluation
    path.write_text(yaml.safe_dump(tree))
    return path


def run(recipe: Path, name: str) -> list[str]:
    return ["local", f"--recipe={recipe}", f"--storage={recipe.parent}", f"--run={name}"]


def answers(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "answers.jsonl").read_text().splitlines()]


def figures(run: Path) -> dict[int, dict[str, float]]:
    """The figures of answers by step. Fails when a step has two."""
    lines = [line for line in metrics(run) if "judged" in line]
    figures_at = {line.pop("step"): line for line in lines}
    assert len(figures_at) == len(lines)
    return figures_at


def shown(run: Path) -> tuple[dict[str, float], dict[str, float]]:
    """What `metrics.jsonl` shows of the untrained and the trained model: figures of answers, and the loss."""
    figures_at = figures(run)
    loss_at = {line["step"]: line["eval_loss"] for line in metrics(run) if "eval_loss" in line}
    first, last = ({**figures_at[step], "eval_loss": loss_at[step]} for step in (0, max(figures_at)))
    return first, last


def complete(run: Path) -> dict[str, Any]:
    return json.loads((run / "COMPLETE.json").read_text())


def test_held_out_rows_are_answered_before_the_training_on_the_period_and_at_the_end(store: Path) -> None:
    figures_at = figures(store / "mine")
    assert list(figures_at) == [0, 2, 4]
    assert figures_at[4].keys() == {"overlap", "exact", "judged"} and figures_at[4]["judged"] == 3
    assert complete(store / "mine")["answers"] == figures_at[4]


def test_a_finished_run_says_what_the_training_gave(store: Path) -> None:
    """In COMPLETE.json, and before the last line of its log."""
    marked, (before, after) = complete(store / "mine"), shown(store / "mine")
    gain = {name: after[name] - before[name] for name in ("overlap", "exact", "eval_loss")}
    assert (marked["before"], marked["gain"]) == (before, gain)
    assert (store / "output").read_text().splitlines()[-4:-1] == [
        f"{name.replace('_', ' ')} {after[name]:.4g}, before the training {before[name]:.4g} "
        f"({gain[name]:+.4g})"
        for name in ("overlap", "exact", "eval_loss")
    ]
    assert after["eval_loss"] < before["eval_loss"]


def test_the_untrained_model_is_the_one_that_is_loaded(store: Path, tiny: Path, tmp_path: Path) -> None:
    """With its answers to the same rows, which a training at almost no rate does not change."""
    path = recipe(tiny, tmp_path, "still", every_steps=None)
    assert main([*run(path, "still"), "--set", "training.learning_rate=1e-12"]) == 0
    still = complete(tmp_path / "still")
    loss = {"eval_loss": pytest.approx(still["evaluation"]["eval_loss"])}
    assert still["before"] == still["answers"] | loss
    assert still["before"] == pytest.approx(complete(store / "mine")["before"])


def test_the_log_shows_a_row_as_the_model_sees_it_and_answers_with_what_was_expected(store: Path) -> None:
    lines = (store / "output").read_text().splitlines()
    at = lines.index("the first row as the model sees it:")
    prompt, trained = lines[at + 1 : at + 3]
    assert prompt.startswith('  prompt  "<bos><start_of_turn>user\\nTranslate to emoji: ')
    assert prompt.endswith('<end_of_turn>\\n<start_of_turn>model\\n"')
    assert trained.startswith('  trained "') and trained.endswith('<end_of_turn>"')
    shown = [line for line in lines if line.startswith("  answer ")]
    assert shown == [
        f"  answer {json.dumps(answer['reply'], ensure_ascii=False)}, "
        f"expected {json.dumps(answer['wanted'], ensure_ascii=False)}"
        for answer in answers(store / "mine")
    ]


def test_the_untrained_model_does_not_answer_where_a_recipe_leaves_it_out(tiny: Path, tmp_path: Path) -> None:
    path = recipe(tiny, tmp_path, "without", before=False, every_steps=None)
    assert main(run(path, "without")) == 0
    assert list(figures(tmp_path / "without")) == [4]
    marked = complete(tmp_path / "without")
    assert (marked["before"], marked["gain"]) == (None, None)


def test_a_run_whose_answers_are_below_the_recipe_s_figure_is_complete_and_not_good(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start after that trains nothing, and says it again."""
    why = "exact 0 is below 1"
    log = (store / "output").read_text().splitlines()[-4:]
    assert complete(store / "mine")["not_good"] == why
    before = (store / "mine" / "attempt.json").read_text()
    assert main(run(store / "mine.yaml", "mine")) == 0
    again = capsys.readouterr().out.splitlines()
    assert again[:-1] == log[:-1]
    ends = [log[-1], again[-1]]
    place = f"its model is in {store}/mine/model, but it is not good: {why}"
    assert ends == [f"run mine is finished{already}, {place}" for already in ("", " already")]
    assert (store / "mine" / "attempt.json").read_text() == before


def test_a_run_that_reaches_the_recipe_s_figures_is_good() -> None:
    asked = Evaluation(judge="sql", good={"execution_accuracy": 0.5})
    assert asked.not_good({"execution_accuracy": 0.5, "judged": 2}) is None
    assert asked.not_good({"execution_accuracy": 0.25, "judged": 4}) == "execution_accuracy 0.25 is below 0.5"


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (0.35, None),
        (0.8, None),
        (0.34, "execution_accuracy 0.34 is not 0.05 above the untrained model's 0.3"),
        (0.1, "execution_accuracy 0.1 is not 0.05 above the untrained model's 0.3"),
    ],
)
def test_a_good_run_may_be_one_that_is_better_than_the_untrained_model(after: float, why: str | None) -> None:
    asked = Evaluation(judge="sql", good={"better_than_base": 0.05})
    assert asked.not_good({"execution_accuracy": after}, {"execution_accuracy": 0.3}) == why


def test_without_the_untrained_model_s_answers_nothing_is_better_than_it() -> None:
    asked = Evaluation(judge="emoji", good={"better_than_base": 0.05})
    assert asked.not_good({"overlap": 1.0}, None) == (
        "the untrained model has not answered, and good.better_than_base compares with it"
    )


def test_the_answers_are_those_that_the_published_model_gives(store: Path, tiny: Path) -> None:
    """One row at a time, without what the trainer has around the model."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from finetune.rows.data import load_conversations
    from finetune.settings.recipe import load_recipe

    asked = load_recipe(str(store / "mine.yaml"))
    _, rows = load_conversations(asked.data, asked.training.seed)
    assert rows is not None
    tokenizer: Any = AutoTokenizer.from_pretrained(tiny / "text-model")
    base = AutoModelForCausalLM.from_pretrained(tiny / "text-model")
    model = PeftModel.from_pretrained(base, str(store / "mine" / "adapter")).eval()
    expected = []
    for row in rows.select(range(3)):
        prompt = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_dict=True, return_tensors="pt"
        )
        tokens = model.generate(**prompt, do_sample=False, max_new_tokens=TOKENS)[0]
        reply = tokenizer.decode(tokens[prompt["input_ids"].shape[1] :], skip_special_tokens=True)
        expected.append((row["prompt"][-1]["content"], reply, row["completion"][0]["content"]))
    written = [(answer["asked"], answer["reply"], answer["wanted"]) for answer in answers(store / "mine")]
    assert written == expected


def test_the_training_is_the_same_without_answers(store: Path, tiny: Path) -> None:
    assert main(run(recipe(tiny, store, "silent", rows=0, every_steps=None), "silent")) == 0
    assert losses(store / "silent") == losses(store / "mine")
    weights = [store / name / "adapter" / "adapter_model.safetensors" for name in ("silent", "mine")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    assert complete(store / "silent")["answers"] is None


@pytest.mark.parametrize("killed_in", [0, 2, 4])
def test_a_run_that_is_killed_while_it_answers_trains_no_step_again(
    killed_in: int, store: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune.run.answers import Answers
    from finetune.run.callbacks import SaveOnRequest

    path = recipe(tiny, store, f"killed-{killed_in}")
    judged, trained = Answers.judged, list[int]()
    monkeypatch.setattr(
        SaveOnRequest, "on_step_begin", lambda _, __, state, *___, **____: trained.append(state.global_step)
    )

    def kill(self: Answers, model: Any, step: int, examples: int = 0) -> dict[str, float]:
        if step == killed_in:
            raise KeyboardInterrupt
        return judged(self, model, step, examples)

    monkeypatch.setattr(Answers, "judged", kill)
    with pytest.raises(KeyboardInterrupt):
        main(run(path, path.stem))
    monkeypatch.setattr(Answers, "judged", judged)
    assert main(run(path, path.stem)) == 0
    assert trained == [0, 1, 2, 3]
    assert losses(store / path.stem) == losses(store / "mine")
    assert answers(store / path.stem) == answers(store / "mine")
    assert complete(store / path.stem)["answers"] == figures(store / "mine")[4]
    assert complete(store / path.stem)["before"] == shown(store / path.stem)[0] == shown(store / "mine")[0]


def test_rows_with_replies_of_one_length_are_answered_together_and_written_in_their_order(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune.run import answers as module

    batches, replies = list[list[int]](), module.Answers._replies

    def noted(self: module.Answers, model: Any, rows: list[dict[str, Any]]) -> list[str]:
        batches.append([len(row["completion"][-1]["content"]) for row in rows])
        return replies(self, model, rows)

    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module.Answers, "_replies", noted)
    path = recipe(tiny, tmp_path, "mine", rows=5, every_steps=None, before=False)
    assert main(run(path, "mine")) == 0
    lengths = [length for batch in batches for length in batch]
    assert lengths == sorted(lengths) and len(lengths) == 5
    in_order = [len(answer["wanted"]) for answer in answers(tmp_path / "mine")]
    assert sorted(in_order) == lengths and in_order != lengths


def test_rows_with_pictures_are_asked_with_their_pictures(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from peft import PeftModelForCausalLM

    asked, generate = list[dict[str, Any]](), PeftModelForCausalLM.generate
    monkeypatch.setattr(
        PeftModelForCausalLM,
        "generate",
        lambda self, **inputs: asked.append(inputs) or generate(self, **inputs),
    )
    path = recipe(tiny, tmp_path, "vision", "gemma-3-4b-vision", judge="text", every_steps=None)
    assert main(run(path, "vision")) == 0
    assert list(figures(tmp_path / "vision")) == [0, 12]
    assert complete(tmp_path / "vision")["gain"].keys() == {"overlap", "rouge_l", "exact", "eval_loss"}
    assert len({answer["wanted"] for answer in answers(tmp_path / "vision")}) == 3
    _, inputs = asked
    assert len(inputs["pixel_values"]) == 3
    begins, pictures = ((inputs["input_ids"] == token).sum(1).tolist() for token in (BOS, PICTURE))
    assert (begins, pictures) == ([1, 1, 1], [TOKENS_PER_IMAGE] * 3)


def test_sql_is_judged_by_the_schema_of_its_row(tiny: Path, tmp_path: Path) -> None:
    """The tiny data set's are none, which is counted."""
    path = recipe(tiny, tmp_path, "sql", "gemma-3-4b-sql", judge="sql", every_steps=None)
    assert main(run(path, "sql")) == 0
    zero = {"execution_accuracy": 0, "judged": 0, "reference_empty": 0}
    assert complete(tmp_path / "sql")["answers"] == zero | {"reference_not_run": 3}


@pytest.mark.parametrize(
    ("kind", "wanted", "reply", "overlap", "exact"),
    [
        ("emoji", "🍌🤔", "🍌🤔", 1, 1),
        ("emoji", "🍌🤔", "🤔 🍌", 1, 0),
        ("emoji", "👩‍👩‍👧👍🏽", "👩👍🏽", 0.5, 0),
        ("emoji", "🍌", "banana", 0, 0),
        ("emoji", "🍌", "", 0, 0),
        ("text", "A soft scarf, red.", "a soft red scarf", 1, 0),
        ("text", "A soft scarf", "a soft scarf!", 1, 1),
        ("text", "red red scarf", "red lamp", 0.4, 0),
        ("text", "🍌", " 🍌", 1, 1),
        ("text", "🍌", "!", 0, 0),
        ("text", "", "", 1, 1),
    ],
)
def test_how_alike_two_texts_are(kind: str, wanted: str, reply: str, overlap: float, exact: int) -> None:
    from finetune.run.answers import UNITS, compare

    assert compare(wanted, reply, UNITS[kind]) == {"overlap": pytest.approx(overlap), "exact": exact}


@pytest.mark.parametrize(
    ("wanted", "reply", "rouge_l"),
    [
        ("police killed the gunman", "police kill the gunman", 3 / 4),
        ("police killed the gunman", "the gunman kill police", 2 / 4),
        ("a soft red scarf", "A soft, warm, red scarf.", 8 / 9),
        ("red", "", 0),
        ("", "", 1),
    ],
)
def test_texts_are_compared_in_the_order_of_their_words_too(wanted: str, reply: str, rouge_l: float) -> None:
    """The first two are the examples of ROUGE's paper, https://aclanthology.org/W04-1013."""
    from finetune.run.answers import UNITS, compare

    assert compare(wanted, reply, UNITS["text"], in_order=True)["rouge_l"] == pytest.approx(rouge_l)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"judge": "sql"}, "evaluation.judge sql needs data.fields.schema"),
        ({"every_steps": 3}, "evaluation.every_steps must be a multiple of training.save_every_steps"),
        ({"good": {"execution_accuracy": 0.5}}, "names execution_accuracy, which judge emoji does not give"),
        ({"good": {"exact": 0.5}, "rows": 0}, "evaluation.good needs evaluation.rows, and data.test_rows"),
        (
            {"good": {"better_than_base": 0.1}, "before": False},
            "good.better_than_base needs evaluation.before",
        ),
        ({"row": 7}, "unknown key evaluation.row (did you mean rows?)"),
    ],
)
def test_what_cannot_be_evaluated_is_said_at_once(
    more: dict[str, Any], message: str, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(recipe(tiny, tmp_path, "wrong", **more), "wrong")) == 2
    assert message in capsys.readouterr().err
