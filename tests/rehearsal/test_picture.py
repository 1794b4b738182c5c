"""The picture of a run: who holds each GPU, what waits, and the loss."""

import re
from itertools import pairwise
from xml.etree import ElementTree

from rehearsal.running_pods import picture
from rehearsal.running_pods.timeline import ENDING, PREEMPTED, RUNNING, STARTING, WAITING, History, Timeline


def played() -> Timeline:
    """A server takes the node of a fine-tune, which has saved at step 2."""
    server = History("server", "server", "node-b", 2, "", [(20, WAITING), (30, STARTING), (40, RUNNING)])
    tune = History(
        "fine-tune",
        "fine-tune",
        "node-b",
        2,
        "exit 143",
        [(0, STARTING), (5, RUNNING), (20, ENDING), (30, "")],
    )
    other = History("fine-tune", "fine-tune", "node-a", 2, "", [(0, RUNNING)])
    queue = History("queue", "queue", changes=[(0, RUNNING), (20, PREEMPTED)])
    losses = {1: (6.0, 8.0), 2: (12.0, 7.0)}
    notes = [(20.0, "serving <scales> up")]
    return Timeline(50.0, queue, {"server": server, "tune": tune, "other": other}, losses, notes)


def shapes(timeline: Timeline, kind: str) -> list[dict[str, str]]:
    root = ElementTree.fromstring(picture.draw(timeline))
    return [dict(shape.attrib) for shape in root.iter() if shape.tag.endswith(f"}}{kind}")]


def bars(timeline: Timeline, look: str) -> list[tuple[float, float, float]]:
    """Left edge, right edge and height of what looks so, above the legend."""
    return [
        (float(bar["x"]), float(bar["x"]) + float(bar["width"]), float(bar["y"]))
        for bar in shapes(timeline, "rect")
        if bar.get("class") == look and float(bar["height"]) > 12
    ]


def test_a_node_has_a_lane_for_every_gpu_and_a_pod_fills_those_that_it_holds() -> None:
    timeline = played()
    lanes = [y for _, _, y in bars(timeline, "lane")]
    assert len(lanes) == len(set(lanes)) == 4
    assert {y for _, _, y in bars(timeline, "server")} == set(lanes[2:])
    assert {y for _, _, y in bars(timeline, "ending")} == set(lanes[2:])


def test_no_gpu_is_held_by_two_pods_at_once() -> None:
    timeline = played()
    looks = ("server", "server starts", "fine-tune", "fine-tune starts", "ending")
    held = sorted((y, left, right) for look in looks for left, right, y in bars(timeline, look))
    for (y, _, right), (next_y, left, _) in pairwise(held):
        assert next_y > y or left >= right - 0.1


def test_a_pod_without_a_node_waits_below_the_gpus() -> None:
    timeline = played()
    ((_, _, y),) = bars(timeline, "waits")
    assert y > max(lane for _, _, lane in bars(timeline, "lane"))


def test_the_picture_follows_the_theme_and_fetches_nothing() -> None:
    text = picture.draw(played())
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"href|url\(|@import|<script", text)
    assert f'width="{picture.WIDTH}"' in text


def test_a_note_is_numbered_at_its_moment_and_told_below() -> None:
    root = ElementTree.fromstring(picture.draw(played()))
    texts = [text.text for text in root.iter() if text.tag.endswith("}text")]
    assert "1" in texts and "1  serving <scales> up (20 s)" in texts


def test_notes_of_the_same_moment_have_numbers_that_can_be_told_apart() -> None:
    timeline = played()
    timeline.notes = [(20.0, "first"), (20.1, "second")]
    root = ElementTree.fromstring(picture.draw(timeline))
    texts = [text for text in root.iter() if text.tag.endswith("}text")]
    first, second = (float(text.attrib["x"]) for text in texts if text.text in ("1", "2"))
    assert second - first >= 12


def test_a_run_that_logged_no_loss_has_a_picture_too() -> None:
    timeline = played()
    timeline.losses = {}
    assert not [path for path in shapes(timeline, "path") if "loss" in path.get("class", "")]
