"""What the configuration may log, and what becomes of it."""

import json

import pytest

from components.capacity import CapacityType, Reservation
from stacks.settings import A4Ray, CloudrunVllm, L4Kueue, TpuMaxtext
from tests.stacks.configuration import CLOUDRUN, L4_KUEUE, TPU_MAXTEXT, load, problems


def test_the_tutorials_values_are_the_defaults() -> None:
    read = load({})
    assert isinstance(read, A4Ray)
    assert read.workers == 2
    assert read.recipe == "gemma-3-4b-vision"
    assert read.capacity.type is CapacityType.RESERVATION
    assert not read.shared_ray_cluster
    assert not read.wait_for_training
    assert not read.force_destroy


def test_the_tutorials_values_are_the_defaults_of_cloudrun_vllm() -> None:
    read = load(CLOUDRUN)
    assert isinstance(read, CloudrunVllm)
    assert read.recipe == "gemma-3-1b-emoji"
    assert (read.min_instances, read.max_instances) == (0, 1)
    assert read.invokers == ()
    assert read.subnet is None
    assert not read.force_destroy


def test_the_tutorials_values_are_the_defaults_of_l4_kueue() -> None:
    read = load(L4_KUEUE)
    assert isinstance(read, L4Kueue)
    assert not read.autopilot
    assert (read.machines.type.name, read.machines.nodes, read.machines.min_nodes) == ("g2-standard-24", 3, 3)
    assert read.machines.zones == ("us-central1-a",)
    assert read.capacity.type is CapacityType.ON_DEMAND
    assert (read.serving_priority, read.training_priority) == ("high", "low")
    assert read.serving_replicas is None


def test_the_tutorials_slice_is_the_default_of_tpu_maxtext() -> None:
    read = load(TPU_MAXTEXT)
    assert isinstance(read, TpuMaxtext)
    shape = read.machines.slice
    assert (shape.topology, shape.machine.name, shape.hosts) == ("4x4", "ct6e-standard-4t", 4)
    assert (read.recipe, read.overrides) == ("llama3-8b", ())
    assert read.capacity.type is CapacityType.ON_DEMAND
    assert read.hf_token is None


@pytest.mark.parametrize(
    ("changes", "zone"),
    [
        ({}, "us-east5-b"),
        ({"gcp:region": "us-central1"}, "us-central1-b"),
        ({"llm-stacks:zone": "us-east5-a"}, "us-east5-a"),
        ({"llm-stacks:capacity.type": "flexStart"}, "us-east5-a"),
    ],
)
def test_a_slice_is_where_there_is_v6e(changes: dict, zone: str) -> None:
    read = load({**TPU_MAXTEXT, **changes})
    assert isinstance(read, TpuMaxtext)
    assert read.machines.zone == zone


def test_who_has_a_reservation_knows_where_it_is() -> None:
    reserved = {
        "llm-stacks:capacity.type": "reservation",
        "llm-stacks:capacity.reservation": "mine",
        "gcp:region": "us-west1",
        "llm-stacks:zone": "us-west1-c",
    }
    read = load({**TPU_MAXTEXT, **reserved})
    assert isinstance(read, TpuMaxtext)
    assert read.machines.zone == "us-west1-c"


@pytest.mark.parametrize(
    "files", ["hf://datasets/o/d/*.parquet", "hf://datasets/o/d/en/0-*.parquet", "/data/mine/*.parquet"]
)
def test_parquet_files_take_the_place_of_the_recipes_data(files: str) -> None:
    read = load({**TPU_MAXTEXT, "llm-stacks:dataset": files})
    assert isinstance(read, TpuMaxtext)
    assert f"grain_train_files={files}" in read.overrides


@pytest.mark.parametrize(
    ("changes", "zones"),
    [
        ({}, ("us-central1-a",)),
        ({"llm-stacks:zones": "us-central1-c"}, ("us-central1-c",)),
        ({"gcp:region": "europe-west1"}, ("europe-west1-b",)),
        (
            {"llm-stacks:zones": '["us-central1-a", "us-central1-b"]', "llm-stacks:minNodes": "1"},
            ("us-central1-a", "us-central1-b"),
        ),
    ],
)
def test_nodes_are_where_there_is_l4(changes: dict, zones: tuple) -> None:
    read = load({**L4_KUEUE, **changes})
    assert isinstance(read, L4Kueue)
    assert read.machines.zones == zones


def test_flex_start_keeps_no_machine_unless_told_to() -> None:
    read = load({**L4_KUEUE, "llm-stacks:capacity.type": "flexStart"})
    assert isinstance(read, L4Kueue)
    assert read.machines.min_nodes == 0


def test_one_large_machine_can_hold_the_fine_tune() -> None:
    read = load({**L4_KUEUE, "llm-stacks:nodes": "1", "llm-stacks:machineType": "g2-standard-48"})
    assert isinstance(read, L4Kueue)
    assert read.machines.type.count == 4


def test_a_key_set_as_a_path_is_read_like_a_flat_one() -> None:
    nested = json.dumps({"type": "reservation", "reservation": "other"})
    read = load({"llm-stacks:capacity.reservation": None, "llm-stacks:capacity": nested})
    assert isinstance(read, A4Ray)
    assert read.capacity.reservation == Reservation(name="other")


@pytest.mark.parametrize("hours", ["0", "169", "1.5"])
def test_a_run_is_limited_to_whole_hours_of_a_week(hours: str) -> None:
    assert load({"llm-stacks:maxRunHours": "4"}).max_run_hours == 4
    assert load({}).max_run_hours is None
    (problem,) = problems({"llm-stacks:maxRunHours": hours})
    assert "maxRunHours" in problem
    assert "whole number from 1 to 168" in problem


def test_a_stack_name_becomes_a_label_that_google_accepts() -> None:
    assert load({}, stack="Team.A4_ray").stack == "team-a4_ray"


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
    read = load({**CLOUDRUN, "llm-stacks:invokers": text})
    assert isinstance(read, CloudrunVllm)
    assert read.invokers == members
