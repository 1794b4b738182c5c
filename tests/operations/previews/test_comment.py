"""The comment: losses in front, folded, short enough, and nothing in it that Markdown would act on."""

import re
from dataclasses import replace

import pytest

from operations.previews import changes, comment
from operations.previews.changes import Change, Kind, Previews, Property, StackPreview
from operations.previews.redaction import Redaction

POOL = Change(
    kind=Kind.REPLACE,
    type="gcp:container/nodePool:NodePool",
    name="l4-pool",
    properties=(
        Property(path="nodeConfig.spot", old="false", new="true", forces=True),
        Property(path="nodeCount", old="3", new="4"),
    ),
)
BUCKET = Change(kind=Kind.DELETE, type="gcp:storage/bucket:Bucket", name="bucket")
SERVICE = Change(
    kind=Kind.UPDATE,
    type="gcp:cloudrunv2/service:Service",
    name="service",
    properties=(Property(path="labels.team", old="a", new=""),),
)
NEW = Change(
    kind=Kind.CREATE,
    type="gcp:compute/network:Network",
    name="network",
    properties=(Property(path="autoCreateSubnetworks", old="", new="false"),),
)
FOLLOWING = [
    Change(
        kind=Kind.REPLACE, type="kubernetes:core/v1:Namespace", name=name, reason="its provider is replaced"
    )
    for name in ("one", "two")
]


def previews(*stacks: StackPreview, untouched: tuple[str, ...] = ()) -> Previews:
    return Previews(commit="c" * 40, stacks=stacks, untouched=untouched)


def preview(*of: Change, stack: str = "l4-kueue") -> StackPreview:
    return StackPreview(stack=stack, against="main", changes=changes.ordered(of), unchanged=5)


def rendered(*stacks: StackPreview, limit: int = 65_536, untouched: tuple[str, ...] = ()) -> str:
    return comment.render(previews(*stacks, untouched=untouched), Redaction(), limit)


def test_it_begins_with_the_mark_by_which_it_is_found_again() -> None:
    assert rendered().startswith(comment.MARKER)


def test_what_is_lost_is_said_before_everything_else_and_is_never_folded() -> None:
    text = rendered(preview(NEW, SERVICE, BUCKET, POOL, *FOLLOWING))
    warning = text.index("[!CAUTION]")
    assert warning < text.index("| stack |")
    assert "1 deleted and 3 replaced" in text
    assert "What these hold is lost: `bucket`, `l4-pool`." in text
    unfolded = re.sub(r"<details>.*?</details>", "", text, flags=re.DOTALL)
    for name in ("`bucket`", "`l4-pool`", "`one`, `two`"):
        assert name in unfolded
    assert "`nodeConfig.spot`: `false` → `true` **forces the replacement**" in unfolded
    order = [
        text.index(f"{title}") for title in ("**1 deleted**", "**3 replaced**", "1 updated", "1 created")
    ]
    assert order == sorted(order)


def test_without_losses_there_is_no_warning() -> None:
    assert "CAUTION" not in rendered(preview(SERVICE, NEW))


def test_a_removed_property_is_told_as_such() -> None:
    assert "`labels.team`: `a` → removed" in rendered(preview(SERVICE))


def test_many_updates_and_all_creations_are_folded() -> None:
    many = [replace(SERVICE, name=f"service-{number}") for number in range(9)]
    text = rendered(preview(*many, NEW))
    assert "<details><summary>9 updated</summary>" in text
    assert "<details><summary>1 created</summary>" in text


def test_every_stack_has_a_row_and_the_others_are_named() -> None:
    text = rendered(preview(POOL), preview(stack="dev"), untouched=("a4-ray",))
    assert "| `l4-kueue` | 0 | **1** | 0 | 0 | 5 |" in text
    assert "| `dev` | 0 | 0 | 0 | 0 | 5 |" in text
    assert "### `dev`\n\nAgainst `main`.\n\nNothing changes." in text
    assert "Nothing that these stacks are made of has changed: `a4-ray`." in text


def test_a_preview_that_failed_is_in_front_with_its_message() -> None:
    text = rendered(
        StackPreview(stack="dev", failure="error: the key ``` is wrong\nset it"), preview(SERVICE)
    )
    assert text.index("`dev`: the preview failed") < text.index("| stack |")
    assert "````text\nerror: the key ``` is wrong\nset it\n````" in text


def test_a_stack_that_is_removed_is_in_front_with_what_to_do() -> None:
    text = comment.render(replace(previews(preview(SERVICE)), removed=("old",)), Redaction(), 65_536)
    assert text.index("**`old` is removed.** What it created stays: destroy it first") < text.index(
        "| stack |"
    )


def test_the_same_previews_make_the_same_text() -> None:
    one = preview(NEW, SERVICE, BUCKET, POOL, *FOLLOWING)
    other = preview(*FOLLOWING, POOL, BUCKET, SERVICE, NEW)
    assert rendered(one) == rendered(other)


@pytest.mark.parametrize("limit", [65_536, 20_000, 5_000, 1_500])
def test_it_never_exceeds_the_limit_and_what_is_lost_stays(limit: int) -> None:
    long = tuple(Property(path=f"path{number}", old="o" * 100, new="n" * 100) for number in range(20))
    many = [
        replace(change, name=f"{change.name}-{number}", properties=long)
        for change in (NEW, SERVICE)
        for number in range(60)
    ]
    text = rendered(preview(BUCKET, *many), limit=limit)
    assert len(text) <= limit
    assert "1 deleted" in text
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize("limit", range(300, 1500, 37))
def test_a_cut_closes_what_is_open(limit: int) -> None:
    failure = "\n".join(f"line {number}" for number in range(200))
    many = [replace(NEW, name=f"network-{number}") for number in range(60)]
    stacks = (preview(*many, SERVICE, POOL), StackPreview(stack="dev", failure=failure))
    for order in (stacks, stacks[::-1]):
        text = rendered(*order, limit=limit)
        assert len(text) <= limit
        assert "is cut off" in text
        assert text.count("<details>") == text.count("</details>")
        assert text.count("```") % 2 == 0


def test_details_go_before_names_and_names_before_losses() -> None:
    many = [replace(NEW, name=f"network-{number}") for number in range(50)]
    stack = preview(POOL, SERVICE, *many)
    lengths = [len(rendered(stack)), len(rendered(stack, limit=3_900))]
    assert lengths[0] > lengths[1]
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
    """A fork decides about names and values; it must not call people, break tables or hide what follows."""
    hostile = Change(
        kind=Kind.REPLACE,
        type="gcp:a/b:C",
        name=f"{text}\n## forged",
        properties=(Property(path=text, old=text, new=f"{text}\n- forged"),),
    )
    following = replace(hostile, reason=f"{text}\n- forged")
    stack = replace(preview(hostile, following, stack=f"{text}\n\nforged"), against=text)
    shown = comment.render(
        Previews(commit=text, stacks=(stack,), untouched=(text,), removed=(text,)), Redaction(), 65_536
    )
    assert "\n## forged" not in shown
    assert "\n- forged" not in shown
    assert "\nforged" not in shown
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", shown)
    for special in ("@everyone", "</details>", "<b>", "--> x", "[a](b)", "#1"):
        assert special not in outside.replace(comment.MARKER, "")


def test_the_whole_text_goes_through_the_redaction() -> None:
    planted = "hf_" + "AbCdEfGhIjKlMnOpQrSt"
    stack = preview(replace(POOL, name=planted, reason=planted, type=planted), stack=planted)
    text = comment.render(previews(stack, untouched=(planted,)), Redaction(), 65_536)
    assert planted not in text


def test_what_was_saved_is_read_back() -> None:
    all_of_it = previews(preview(POOL, BUCKET, NEW, *FOLLOWING), StackPreview(stack="dev", failure="no"))
    assert changes.from_json(changes.as_json(all_of_it)) == all_of_it


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"commit": 1, "stacks": [], "untouched": []}', '{"commit": ""}']
)
def test_a_file_that_was_not_saved_by_us_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--save"):
        changes.from_json(text)
