"""Tokens are made once, on all cores, and are what one process makes. The file beside a run is data."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from conftest import ROOT

from finetune.rows import cores as cores_of_machine
from finetune.rows.cores import Progress, in_order
from finetune.rows.data import load_conversations
from finetune.rows.prefix import split_off_prefix
from finetune.rows.tokens import NOT_TRAINED, to_tokens
from finetune.settings.recipe import load_recipe
from finetune.storage.folder import Folder
from rehearsal.running_pods.tiny import make_recipe
from shared.errors import InputError

TALK = [
    {"role": role, "content": f"{role} {number}"} for number in range(3) for role in ("user", "assistant")
]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a node with the tokens that it has."""
    import datasets.config

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache/tokens"


@pytest.fixture
def run(tmp_path: Path) -> Folder:
    return Folder(str(tmp_path / "store/mine"))


def tokenizer_of(tiny: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(tiny / "text-model")


def rows_of(tmp_path: Path, tiny: Path, *overrides: str) -> Any:
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    return load_conversations(load_recipe(str(recipe), [*overrides]).data, 42)[0]


def of_file(tmp_path: Path, rows: list[dict[str, Any]], **data: Any) -> Any:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    from finetune.settings.sections import Data

    return load_conversations(Data(files=[str(file)], **data), 42)[0]


KINDS: dict[str, Callable[[Path, Path], Any]] = {
    "prompts": lambda tmp_path, tiny: rows_of(tmp_path, tiny, "data.rows=24"),
    "conversations": lambda tmp_path, _: of_file(
        tmp_path, [{"messages": TALK[: 2 + 2 * (at % 3)]} for at in range(24)], messages="messages"
    ),
    "tools": lambda tmp_path, _: of_file(
        tmp_path,
        [{"messages": TALK[:2], "tools": None} for _ in range(24)],
        messages="messages",
        tools="tools",
    ),
    "plain texts": lambda tmp_path, _: of_file(
        tmp_path, [{"text": "one two three " * at} for at in range(1, 25)], text="text"
    ),
}


def use(monkeypatch: pytest.MonkeyPatch, processes: int, rows_at_a_time: int) -> None:
    monkeypatch.setattr(cores_of_machine, "cores", lambda: processes)
    monkeypatch.setattr(cores_of_machine, "BATCH", rows_at_a_time)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_make_the_tokens_that_one_makes_in_the_same_order_and_packs(
    kind: str, tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trl import pack_dataset

    rows, results = KINDS[kind](tmp_path, tiny), []
    for processes, at_a_time in ((1, 1000), (3, 5)):
        use(monkeypatch, processes, at_a_time)
        tokens = to_tokens(rows, tokenizer_of(tiny), 200)
        prefix, behind, _ = split_off_prefix(tokens, None)
        packs = pack_dataset(behind, 200 - len(prefix))
        results.append([prefix, tokens.to_list(), packs.to_list()])
        for file in cache.iterdir():
            file.unlink()
    assert results[0] == results[1]
    assert len(results[0][1]) >= 24


def test_the_tokens_of_a_run_are_made_once_on_each_node_and_read_from_beside_the_run(
    tiny: Path, tmp_path: Path, cache: Path, run: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, tokenizer = rows_of(tmp_path, tiny), tokenizer_of(tiny)
    tokens = to_tokens(rows, tokenizer, None, beside=run).to_list()
    assert sorted(run.sizes("tokens")) == sorted(
        f"{file.stem}.{ending}" for file in cache.iterdir() for ending in ("arrow", "json")
    )
    monkeypatch.setattr(cores_of_machine, "in_order", pytest.fail)
    # A longer length than any row has makes no other tokens.
    assert to_tokens(rows, tokenizer, 1000).to_list() == tokens
    for file in cache.iterdir():
        file.unlink()
    assert to_tokens(rows, tokenizer, None, beside=run).to_list() == tokens


CHANGES: dict[str, Callable[[Any, Any], tuple[Any, Any, int | None]]] = {
    "rows": lambda rows, tokenizer: (rows.select(range(1, len(rows))), tokenizer, None),
    "order": lambda rows, tokenizer: (rows.select([1, 0, *range(2, len(rows))]), tokenizer, None),
    "vocabulary": lambda rows, tokenizer: (rows, tokenizer, 100_000),
    "template": lambda rows, tokenizer: (
        rows,
        changed(tokenizer, chat_template=tokenizer.chat_template + " "),
        None,
    ),
    "stops": lambda rows, tokenizer: (rows, changed(tokenizer, stops_of_model={1}), None),
    "tokenizer": lambda rows, tokenizer: (rows, with_word(tokenizer), None),
}


def changed(tokenizer: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(tokenizer, name, value)
    return tokenizer


def with_word(tokenizer: Any) -> Any:
    tokenizer.add_tokens(["emoji"])
    return tokenizer


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_the_tokens_decides_the_name_of_their_file(
    change: str, tiny: Path, tmp_path: Path, cache: Path
) -> None:
    rows, tokenizer = rows_of(tmp_path, tiny), tokenizer_of(tiny)
    to_tokens(rows, tokenizer, None)
    to_tokens(*CHANGES[change](rows, tokenizer)[:2], None, CHANGES[change](rows, tokenizer_of(tiny))[2])
    assert len([*cache.iterdir()]) == 2


def test_a_template_that_writes_the_date_has_other_tokens_on_another_day(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from conversations import day

    # The test ends with the clock that it found.
    monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", None)
    rows, tokenizer = rows_of(tmp_path, tiny), tokenizer_of(tiny)
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }}" + tokenizer.chat_template
    for date in ("2026-11-28", "2026-11-29", "2026-11-28"):
        day.keep(date)
        to_tokens(rows, tokenizer, None)
    assert len([*cache.iterdir()]) == 2


def table(**columns: Any) -> pyarrow.Table:
    lists = pyarrow.list_(pyarrow.int32())
    return pyarrow.table({name: pyarrow.array(rows, lists) for name, rows in columns.items()})


RIGHT = {"input_ids": [[2, 5, 6]], "labels": [[NOT_TRAINED, 5, 6]]}
FORGED: dict[str, pyarrow.Table] = {
    "other columns": table(**RIGHT, pictures=[[1]]),
    "a type of column for the library": table(**RIGHT).replace_schema_metadata({"huggingface": "{}"}),
    "wider numbers": pyarrow.table(RIGHT),
    "an unknown token": table(input_ids=[[2, 99_999, 6]], labels=[[NOT_TRAINED, 99_999, 6]]),
    "a negative token": table(input_ids=[[2, -5, 6]], labels=[[NOT_TRAINED, -5, 6]]),
    "another label": table(input_ids=[[2, 5, 6]], labels=[[NOT_TRAINED, 5, 7]]),
    "another length": table(input_ids=[[2, 5, 6]], labels=[[5, 6]]),
    "nothing trained": table(input_ids=[[2, 5], [7]], labels=[[2, 5], [NOT_TRAINED]]),
    "an empty row": table(input_ids=[[2, 5], []], labels=[[2, 5], []]),
    "no row": table(input_ids=[[2], None], labels=[[2], None]),
}


@pytest.mark.parametrize("forgery", [*FORGED, "other bytes", "no file", "no Arrow", "no mark", "a nest"])
def test_a_forged_or_damaged_file_of_tokens_is_told_and_made_again(
    forgery: str, tiny: Path, tmp_path: Path, cache: Path, run: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, tokenizer = rows_of(tmp_path, tiny), tokenizer_of(tiny)
    tokens = to_tokens(rows, tokenizer, None, len(tokenizer), run).to_list()
    (file,) = cache.iterdir()
    beside, mark = Path(run.path, "tokens", file.name), Path(run.path, "tokens", f"{file.stem}.json")
    whole = beside.read_bytes()
    if forgery in FORGED:
        with pyarrow.OSFile(str(beside), "wb") as sink:
            forged = FORGED[forgery]
            with pyarrow.ipc.new_stream(sink, forged.schema) as writer:
                writer.write_table(forged)
    elif forgery == "no file":
        beside.unlink()
    elif forgery in ("other bytes", "no Arrow"):
        beside.write_bytes(whole[:-9] if forgery == "other bytes" else b"none")
    if forgery not in ("other bytes", "no file"):
        from finetune.rows.token_file import _mark

        mark.write_text(json.dumps(_mark(beside)))
    if forgery in ("no mark", "a nest"):
        mark.write_text("{" if forgery == "no mark" else "[" * 100_000)
    file.unlink()
    assert to_tokens(rows, tokenizer, None, len(tokenizer), run).to_list() == tokens
    assert f"tokens/{file.name} in {run.uri} is damaged: " in capsys.readouterr().out
    assert beside.read_bytes() == whole


def test_a_row_that_a_process_refuses_ends_the_run_as_it_does_in_one(
    tiny: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, ends = rows_of(tmp_path, tiny), []
    for processes in (1, 3):
        use(monkeypatch, processes, 4)
        with pytest.raises(InputError) as error:
            to_tokens(rows, tokenizer_of(tiny), None, vocabulary=300)
        ends.append(str(error.value))
    assert ends[0] == ends[1]
    assert not [*cache.glob("*")]


def test_progress_says_how_many_rows_of_how_many_and_how_fast(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0, 1, 6, 8, 12])
    progress = Progress(4000, lambda: next(times))
    for done in (1000, 2000, 3000, 4000):
        progress.tell(done)
    assert capsys.readouterr().out.splitlines() == [
        "tokens of 2,000 of 4,000 rows, 333 rows a second",
        "tokens of 4,000 of 4,000 rows, 333 rows a second",
    ]


@pytest.mark.parametrize(
    ("limit", "most"), [("200000 100000", 2), ("50000 100000", 1), ("max 100000", 7), ("", 7)]
)
def test_a_container_with_a_limit_of_cores_starts_no_more_processes(
    limit: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    monkeypatch.setattr(cores_of_machine, "_LIMIT", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(7), raising=False)
    assert cores_of_machine.cores() == most


def test_processes_end_with_the_process_that_started_them() -> None:
    """Each of them holds the end of a pipe, which closes with the last."""
    reader, writer = os.pipe()
    parent = os.fork()
    if not parent:
        os.close(reader)
        for _ in in_order(lambda at: at or (os.write(writer, b"x") and signal.pause()), range(8), 2):
            pass
        os._exit(1)
    os.close(writer)
    assert os.read(reader, 1) == b"x"
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(reader, 1) == b""
    os.close(reader)


MEMORY = """
import json, sys
from pathlib import Path
import datasets.config
from transformers import AutoTokenizer
from finetune.rows import cores
from finetune.rows.data import load_conversations
from finetune.rows.prefix import split_off_prefix
from finetune.rows.tokens import to_tokens
from finetune.settings.sections import Data

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

folder, model = Path(sys.argv[1]), sys.argv[2]
datasets.config.HF_DATASETS_CACHE = folder / "cache"
cores.cores = lambda: 1
tokenizer = AutoTokenizer.from_pretrained(model)
for name in ("first", "few", "many"):
    rows, _ = load_conversations(Data(files=[str(folder / f"{name}.jsonl")], prompt="{a}", reply="b"), 1)
    before = peak()
    prefix, behind, _ = split_off_prefix(to_tokens(rows, tokenizer, 500), None)
    print(len(behind), peak() - before)
    kept = behind
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells what a process holds")
def test_rows_that_are_four_times_as_many_take_no_more_memory(tiny: Path, tmp_path: Path) -> None:
    """As lists of numbers, 3,000 rows of 200 tokens are 30 MB, and four times as many 120 MB."""
    text = "one two three four five six seven " * 5
    for name, count in (("first", 300), ("few", 700), ("many", 2800)):
        lines = (json.dumps({"a": f"{number} {text}", "b": text}) for number in range(count))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    command = [sys.executable, "-c", MEMORY, str(tmp_path), str(tiny / "text-model")]
    output = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    figures = [[int(word) for word in line.split()] for line in output.splitlines() if line[0].isdigit()]
    (_, _), (few, less), (many, more) = figures
    assert (few, many) == (700, 2800)
    assert more - less < 8_000, figures


def fast_tokenizer(normalizer: Any = None, cutter: Any = None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = Tokenizer(models.BPE())
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = cutter or pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["hello reply the answer of the prompt \n\n ▁▁ "] * 5, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def tokenizers_of_forms() -> dict[str, Any]:
    from tokenizers import normalizers, pre_tokenizers

    metaspace = [pre_tokenizers.Metaspace(prepend_scheme=scheme) for scheme in ("first", "always", "never")]
    old = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return {
        "bytes": fast_tokenizer(),
        "first blank": fast_tokenizer(cutter=metaspace[0]),
        "all blanks": fast_tokenizer(cutter=metaspace[1]),
        "no blank": fast_tokenizer(cutter=metaspace[2]),
        "Llama 2": fast_tokenizer(old, pre_tokenizers.Sequence([])),
        "composed": fast_tokenizer(normalizers.NFKC()),
    }


@pytest.mark.parametrize("form", ["bytes", "first blank", "all blanks", "no blank", "Llama 2", "composed"])
@pytest.mark.parametrize("strips", ["", "lstrip", "rstrip", "single_word"])
def test_a_prompt_has_the_tokens_that_it_has_alone(form: str, strips: str) -> None:
    from tokenizers import AddedToken

    from conversations.texts import PromptTokens

    tokenizer = tokenizers_of_forms()[form]
    options: Any = {strips: True} if strips else {}
    marks = [AddedToken(mark, special=True, **options) for mark in ("<a>", "<a>x", "</s>")]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    texts = PromptTokens(tokenizer)
    parts = ["<a>", " hello", "the ", "\n", "", "ﬁ é", "</s>", "x answer", "  "]
    prompts = ["".join(pair) for pair in pairwise(parts * 2)] + ["<a> the <a>\n", "no mark ", "", "<a>"]
    for prompt in prompts:
        for answer in ("x reply", "\n\nreply</s>", " the", "reply"):
            alone, whole = tokenizer([prompt, prompt + answer], add_special_tokens=False)["input_ids"]
            assert texts.tokens(prompt, answer) == (alone, whole), (prompt, answer)
