"""What the configuration may log, and what becomes of it."""

import json

import pulumi
import pytest

from components.cluster.capacity import Capacity, CapacityType, Reservation
from stacks.platform import StackContext
from stacks.settings.reader import SettingsError
from tests.stacks.configuration import CLOUDRUN, L4_KUEUE, TPU_MAXTEXT, load, problems

CAPACITY = "llm-stacks:capacity.type"


def test_the_tutorials_machines_and_recipes_are_the_defaults() -> None:
    a4, l4, tpu = load({}), load(L4_KUEUE), load(TPU_MAXTEXT)
    assert (a4.workers, a4.training.recipe) == (2, "gemma-3-4b-vision")
    assert a4.capacity.capacity_types == (CapacityType.RESERVATION,)
    assert load(CLOUDRUN).training.recipe == "gemma-3-1b-emoji"
    assert (l4.nodes.machine.name, l4.nodes.nodes, l4.nodes.minimum) == ("g2-standard-24", 3, 3)
    assert l4.nodes.zones_in(l4.project.region) == ("us-central1-a",)
    assert (tpu.slice.topology, tpu.slice.machine.name, tpu.slice.hosts) == ("4x4", "ct6e-standard-4t", 4)
    training = tpu.training
    assert (training.recipe, training.dataset, training.hf_token) == ("llama3-8b", None, None)
    assert l4.nodes.capacity_types == tpu.capacity.capacity_types == (CapacityType.ON_DEMAND,)


@pytest.mark.parametrize(
    ("changes", "zone"),
    [
        ({}, "us-east5-b"),
        ({"gcp:region": "us-central1"}, "us-central1-b"),
        ({"llm-stacks:zone": "us-east5-a"}, "us-east5-a"),
        ({CAPACITY: "flexStart"}, "us-east5-a"),
        # The owner of a reservation knows its zone.
        (
            {
                CAPACITY: "reservation",
                "llm-stacks:capacity.reservation": "mine",
                "gcp:region": "us-west1",
                "llm-stacks:zone": "us-west1-c",
            },
            "us-west1-c",
        ),
    ],
)
def test_a_slice_is_where_there_is_v6e(changes: dict, zone: str) -> None:
    assert load({**TPU_MAXTEXT, **changes}).zone_of_slice == zone


@pytest.mark.parametrize(
    "files", ["hf://datasets/o/d/*.parquet", "hf://datasets/o/d@v1.0/en/0-*.parquet", "/data/mine/*.parquet"]
)
def test_parquet_files_take_the_place_of_the_recipes_data(files: str) -> None:
    settings = load({**TPU_MAXTEXT, "llm-stacks:dataset": files})
    assert settings.training.trained_recipe.maxtext["grain_train_files"] == files
    assert settings.training.trained_recipe.maxtext["dataset_type"] == "grain"


@pytest.mark.parametrize(
    ("changes", "zones"),
    [
        ({"llm-stacks:zones": "us-central1-c"}, ("us-central1-c",)),
        ({"gcp:region": "europe-west1"}, ("europe-west1-b",)),
        ({"llm-stacks:zones": '["us-central1-a", "us-central1-a"]'}, ("us-central1-a",)),
        (
            {"llm-stacks:zones": '["us-central1-a", "us-central1-b"]', "llm-stacks:minNodes": "1"},
            ("us-central1-a", "us-central1-b"),
        ),
    ],
)
def test_nodes_are_where_there_is_l4(changes: dict, zones: tuple) -> None:
    read = load({**L4_KUEUE, **changes})
    assert read.nodes.zones_in(read.project.region) == zones


def test_a_token_is_a_secret_also_where_it_is_optional() -> None:
    token = {"llm-stacks:hfToken": "hf_secret_of_the_test"}
    assert "hf_secret" not in repr(load({**TPU_MAXTEXT, **token}))
    assert "stored in plain text" in problems({**TPU_MAXTEXT, **token}, secrets=())[0]


def test_flex_start_keeps_no_machine_unless_told_to() -> None:
    assert load({**L4_KUEUE, CAPACITY: "flexStart"}).nodes.minimum == 0


def test_one_large_machine_can_hold_the_fine_tune() -> None:
    read = load({**L4_KUEUE, "llm-stacks:nodes": "1", "llm-stacks:machineType": "g2-standard-48"})
    assert read.nodes.machine.count == 4


def test_a_key_set_as_a_path_is_read_like_a_flat_one() -> None:
    nested = json.dumps({"type": "reservation", "reservation": "other"})
    read = load({"llm-stacks:capacity.reservation": None, "llm-stacks:capacity": nested})
    wanted = Capacity(type=CapacityType.RESERVATION, reservation=Reservation(name="other"))
    assert read.capacity.chain.capacities == (wanted,)


@pytest.mark.parametrize("hours", ["0", "169", "1.5", "null"])
def test_a_run_is_limited_to_whole_hours_of_a_week(hours: str) -> None:
    assert load({"llm-stacks:maxRunHours": "4"}).training.max_run_hours == 4
    assert load({}).training.max_run_hours is None
    assert problems({"llm-stacks:maxRunHours": hours}) == [
        f"maxRunHours: {hours!r} is not a whole number from 1 to 168"
    ]


def test_a_value_of_any_length_is_told_in_a_few_lines_and_soon() -> None:
    """To look for a word that is near would take the square of a million."""
    long = "x" * 1_000_000
    for key in ("gcp:region", CAPACITY, f"llm-stacks:{long}"):
        assert len(message_about({key: long})) < 2500
    assert message_about({"gcp:region": long}).endswith("is not a region such as us-central1 (not a zone)")


def test_a_value_that_is_nested_without_end_is_told() -> None:
    for deep in ("[" * 100_000, '{"a":' * 100_000):
        (message,) = problems({**L4_KUEUE, "llm-stacks:zones": deep})
        assert message.startswith("zones: ")


def test_a_key_cannot_write_to_the_terminal() -> None:
    (_, line) = message_about({"llm-stacks:\x1b[2Jworkers": "2"}).splitlines()
    assert line.isprintable() and line.startswith("  \\x1b[2Jworkers: unknown key")


def message_about(changes: dict[str, str | None]) -> str:
    with pytest.raises(SettingsError) as error:
        load(changes)
    return str(error.value)


def test_a_stack_name_becomes_a_label_that_google_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    read = load({})
    monkeypatch.setattr(pulumi, "get_stack", lambda: "Team.A4_ray")
    assert StackContext(read.project).labels["stack"] == "team-a4_ray"


@pytest.mark.parametrize(
    ("text", "members"),
    [
        ("[]", ()),
        ("user:me@example.com", ("user:me@example.com",)),
        (
            '["group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"]',
            ("group:team@example.com", "serviceAccount:a@p.iam.gserviceaccount.com"),
        ),
        ('["allUsers", "allUsers"]', ("allUsers",)),
    ],
)
def test_invokers_are_one_member_or_a_list(text: str, members: tuple[str, ...]) -> None:
    assert load({**CLOUDRUN, "llm-stacks:invokers": text}).invokers == members
