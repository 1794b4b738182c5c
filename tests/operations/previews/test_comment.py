"""The comment: losses in front, folded, short enough, and nothing in it that Markdown would act on."""

import re
from dataclasses import replace

import pytest

from operations.previews import changes, comment
from operations.previews.changes import Change, Kind, Previews, Property, RunChange, StackPreview

POOL = Change(
    kind=Kind.REPLACE,
    type="gcp:container:NodePool",
    name="l4-pool",
    properties=(
        Property(path="nodeConfig.spot", old="false", new="true", forces=True),
        Property(path="nodeCount", old="3", new="4"),
    ),
)
BUCKET = Change(kind=Kind.DELETE, type="gcp:storage:Bucket", name="bucket")
SERVICE = Change(
    kind=Kind.UPDATE,
    type="gcp:cloudrunv2:Service",
    name="service",
    properties=(Property(path="labels.team", old="a", new=""),),
)
NEW = Change(
    kind=Kind.CREATE,
    type="gcp:compute:Network",
    name="network",
    properties=(Property(path="autoCreateSubnetworks", old="", new="false"),),
)
FOLLOWING = [
    Change(
        kind=Kind.REPLACE, type="kubernetes:core/v1:Namespace", name=name, reason="its provider is replaced"
    )
    for name in ("one", "two")
]
FAILED = StackPreview(stack="dev", failure="error: the key ``` is wrong\nset it")


def preview(*of: Change, stack: str = "neutral") -> StackPreview:
    return StackPreview(stack=stack, against="main", changes=of, unchanged=5)


def rendered(*stacks: StackPreview, limit: int = 65_536, **more: tuple[str, ...]) -> str:
    return comment.render(Previews(commit="c" * 40, stacks=stacks, **more), limit)


def test_what_is_lost_is_said_before_everything_else_and_is_never_folded() -> None:
    text = rendered(preview(NEW, SERVICE, BUCKET, POOL, *FOLLOWING))
    assert text.startswith(comment.MARKER)
    assert text.index("[!CAUTION]") < text.index("| stack |")
    assert "1 deleted and 3 replaced" in text
    assert "What these hold is lost: `bucket`, `l4-pool`." in text
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    for name in ("`bucket`", "`l4-pool`", "`one`, `two`"):
        assert name in unfolded
    assert "`nodeConfig.spot`: `false` → `true` **forces the replacement**" in unfolded
    order = [text.index(title) for title in ("**1 deleted**", "**3 replaced**", "1 updated", "1 created")]
    assert order == sorted(order)
    assert rendered(preview(*FOLLOWING, POOL, BUCKET, SERVICE, NEW)) == text


def test_without_losses_there_is_no_warning_and_many_updates_are_folded_as_all_creations_are() -> None:
    few, many = ([replace(SERVICE, name=f"service-{number}") for number in range(count)] for count in (5, 9))
    for text in (rendered(preview(*few, NEW)), rendered(preview(*many, NEW))):
        assert "CAUTION" not in text
        assert "`labels.team`: `a` → removed" in text
        assert "<details><summary>1 created</summary>" in text
        assert ("<details><summary>9 updated</summary>" in text) == ("5 updated" not in text)


def test_a_run_that_ends_is_in_front_and_one_that_goes_on_with_its_stack() -> None:
    runs = (RunChange(before="old-1", after="new-2"), RunChange(before="mine", after="mine"))
    text = rendered(replace(preview(SERVICE), runs=runs))
    ended = "> **`neutral`: the training of run `old-1` ends where it is, and run `new-2` starts.**"
    assert 0 < text.index(ended) < text.index("| stack |")
    assert text.index("### `neutral`") < text.index("Run `mine` goes on from its newest checkpoint.")
    deleted = rendered(replace(preview(SERVICE), runs=(RunChange(before="old-1", after=""),)))
    assert "the training of run `old-1` ends where it is.**" in deleted


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            RunChange(before="old-1", after="new-2", before_step=120, steps=300, after_step=0),
            "the training of run `old-1` ends at step 120 of 300, and run `new-2` starts from step 0.**",
        ),
        (
            RunChange(before="old-1", after="new-2", before_step=120, after_step=40),
            "the training of run `old-1` ends at step 120, and run `new-2` goes on from step 40.**",
        ),
        (
            RunChange(before="old-1", after="new-2", before_step=300, after_step=0, finished=True),
            "run `old-1` is finished, and run `new-2` starts from step 0.**",
        ),
        (RunChange(before="old-1", after="", before_step=0), "the training of run `old-1` ends at step 0.**"),
        (
            RunChange(before="mine", after="mine", before_step=120, steps=300),
            "Run `mine`, now at step 120 of 300, goes on from its newest checkpoint. Only its job is new.",
        ),
        (
            RunChange(before="mine", after="mine", before_step=300, finished=True),
            "Run `mine` is finished and is not trained again. Only its job is new.",
        ),
    ],
)
def test_the_step_of_a_run_is_told_where_the_bucket_can_be_read(run: RunChange, expected: str) -> None:
    assert expected in rendered(replace(preview(SERVICE), runs=(run,)))


def test_what_the_program_warns_of_stands_before_the_table() -> None:
    open_to_all = replace(preview(SERVICE, stack="dev"), warnings=("invokers has allUsers: @everyone",))
    text = rendered(preview(stack="a4-ray"), open_to_all)
    assert text.index("> **`dev` warns:** `invokers has allUsers: @everyone`") < text.index("| stack |")
    assert "CAUTION" in text


def test_what_has_no_preview_or_no_change_is_told_and_a_failure_in_front() -> None:
    others = preview(POOL), preview(stack="a4-ray")
    text = rendered(FAILED, *others, untouched=("tpu-maxtext",), removed=("old",))
    assert "| `neutral` | 0 | **1** | 0 | 0 | 5 |" in text
    assert "Nothing changes: `a4-ray`, against `main`." in text
    assert text.count("a4-ray") == 1
    assert "Nothing that these stacks are made of has changed: `tpu-maxtext`." in text
    table = text.index("| stack |")
    assert text.index("`dev`: the preview failed") < table
    assert text.index("**`old` is removed.** What it created stays: destroy it first") < table
    assert "````text\nerror: the key ``` is wrong\nset it\n````" in text


@pytest.mark.parametrize("limit", [65_536, 20_000, 5_000, *range(300, 1500, 111)])
def test_it_never_exceeds_the_limit_and_a_cut_closes_what_is_open(limit: int) -> None:
    failed = replace(FAILED, failure="\n".join(f"line {number}" for number in range(200)))
    long = tuple(Property(path=f"path{number}", old="old " * 25, new="new " * 25) for number in range(5))
    many = [
        replace(change, name=f"{change.name}-{number}", properties=long)
        for change in (NEW, SERVICE)
        for number in range(60)
    ]
    for order in ((preview(*many, BUCKET), failed), (failed, preview(*many, BUCKET))):
        text = rendered(*order, limit=limit)
        assert len(text) <= limit
        assert "`neutral`: 1 deleted" in text
        assert ("is cut off" in text) == (limit < 5_000)
        assert text.count("<details>") == text.count("</details>")
        assert text.count("```") % 2 == 0


def test_details_go_before_names_and_names_before_losses() -> None:
    stack = preview(POOL, SERVICE, *(replace(NEW, name=f"network-{number}") for number in range(50)))
    assert "autoCreateSubnetworks" in rendered(stack)
    shorter = rendered(stack, limit=3_900)
    assert "`network-49`" in shorter
    assert "autoCreateSubnetworks" not in shorter
    shortest = rendered(stack, limit=1_000)
    assert "50 created." in shortest
    assert "nodeConfig.spot" in shortest
    assert "is cut off" not in shortest


@pytest.mark.parametrize(
    "text", ["@everyone", "a`b", "``", "x | y", "<b>", "</details>", "--> x", "[a](b)", "#1"]
)
def test_no_text_of_a_merge_request_acts_as_markdown(text: str) -> None:
    """A fork decides about names and values.

    It must not mention people, break tables or hide what follows.
    """
    hostile = Change(
        kind=Kind.REPLACE,
        type="gcp:a:C",
        name=f"{text}\n## forged",
        properties=(Property(path=text, old=text, new=f"{text}\n- forged"),),
    )
    following = replace(hostile, reason=f"{text}\n- forged")
    stack = replace(preview(hostile, following, stack=f"{text}\n\nforged"), against=text)
    everything = Previews(commit=text, stacks=(stack,), untouched=(text,), removed=(text,))
    shown = comment.render(everything, 65_536)
    for forged in ("\n## forged", "\n- forged", "\nforged"):
        assert forged not in shown
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", shown)
    for special in ("@everyone", "</details>", "<b>", "--> x", "[a](b)", "#1"):
        assert special not in outside.replace(comment.MARKER, "")


@pytest.mark.parametrize(
    ("hidden", "shown"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("a\u2066b", r"a\u2066b"),
        ("a\u200bb", r"a\u200bb"),
        ("a\ufeffb", r"a\ufeffb"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\u3164b", r"a\u3164b"),
    ],
)
def test_what_is_not_seen_or_turns_the_text_round_is_shown_by_its_code(hidden: str, shown: str) -> None:
    change = replace(POOL, name=hidden, properties=(Property(path=hidden, old=hidden, new=hidden),))
    stack = replace(preview(change, stack=hidden), warnings=(hidden,), against=hidden)
    failed = StackPreview(stack=hidden, failure=f"error: {hidden}\nagain")
    text = rendered(stack, failed, untouched=(hidden,), removed=(hidden,))
    assert hidden not in text
    assert text.count(shown) > 10 and f"error: {shown}\nagain" in text


def test_of_a_fork_it_says_whose_words_these_are_before_everything_else() -> None:
    previews = Previews(commit="c" * 40, stacks=(preview(POOL),))
    text = comment.render(previews, 65_536, of_fork=True)
    note = text.index("This merge request comes from a fork, whose own code made this preview")
    assert text.startswith(comment.MARKER) and note < text.index("[!CAUTION]")
    assert "comes from a fork" in comment.render(previews, 700, of_fork=True)
    assert "fork" not in comment.render(previews, 65_536)


def test_the_whole_text_goes_through_the_redaction() -> None:
    planted = "hf_" + "AbCdEfGhIjKlMnOpQrSt"
    stack = preview(replace(POOL, name=planted, reason=planted, type=planted), stack=planted)
    assert planted not in rendered(stack, untouched=(planted,))


def test_what_was_saved_is_read_back() -> None:
    all_of_it = Previews(commit="c" * 40, stacks=(preview(POOL, BUCKET, NEW, *FOLLOWING), FAILED))
    assert changes.from_json(all_of_it.model_dump_json()) == all_of_it


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"commit": 1, "stacks": [], "untouched": []}', '{"commit": ""}']
)
def test_a_file_that_was_not_saved_by_us_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="--save"):
        changes.from_json(text)
