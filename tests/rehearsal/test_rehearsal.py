"""A small program on the real engine with the fake providers."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest

from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests.rehearsal.small import COUNT, SETTINGS, TOKEN, Echo, Small

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
BUCKET = "gcp:storage/bucket:Bucket"


@pytest.fixture
def small() -> Small:
    return Small()


@pytest.fixture
def empty(small: Small) -> Iterator[Rehearsal]:
    with Rehearsal("small", SETTINGS, small) as rehearsal:
        yield rehearsal


@pytest.fixture
def running(empty: Rehearsal) -> Rehearsal:
    empty.up()
    return empty


def test_a_stack_is_planned_created_found_unchanged_and_destroyed(empty: Rehearsal) -> None:
    plan = empty.preview()
    assert plan.changes == {"create": COUNT}
    assert len(plan.resources) == COUNT
    assert empty.up().changes == {"create": COUNT}
    assert empty.preview().changes == {"same": COUNT}
    assert empty.refresh().changed == 0
    assert empty.destroy().changes == {"delete": COUNT}
    assert empty.cloud.items == []
    assert not empty.state()["deployment"].get("resources")


def test_a_plan_says_parents_dependencies_and_inputs_without_automatic_names(empty: Rehearsal) -> None:
    resources = {resource.name: resource for resource in empty.preview().resources}
    assert resources["bucket"].inputs == {"location": "us-central1"}
    assert resources["bucket"].parent == resources["llm-stacks-small"].urn
    assert resources["compute"].urn in resources["network"].dependencies
    assert resources["provider"].urn in resources["namespace"].dependencies


def test_a_secret_is_in_clear_neither_in_plan_nor_in_state(empty: Rehearsal) -> None:
    plan = empty.preview()
    empty.up()
    state = json.dumps(empty.state())
    (token,) = (item for item in empty.cloud.of_type("kubernetes:core/v1:Secret"))
    assert token.inputs["stringData"] == {"token": TOKEN}
    assert TOKEN not in plan.as_json()
    assert TOKEN not in state
    assert "ciphertext" in state


def test_the_state_is_the_one_that_the_engine_exports(empty: Rehearsal) -> None:
    for operation in (empty.preview, empty.up, empty.destroy):
        operation()
        assert json.dumps(empty.state()) == json.dumps(json.loads(empty.engine(["stack", "export"])))


@pytest.mark.parametrize("name", ["cluster", "provider", "bucket"])
def test_after_a_fault_the_second_up_converges_and_destroy_leaves_nothing(
    empty: Rehearsal, name: str
) -> None:
    empty.faults.add([name])
    with pytest.raises(RehearsalError, match=f"lets the creation of {name} fail"):
        empty.up()
    first = empty.last.changes.get("create", 0)
    assert first < COUNT
    assert first + empty.up().changes["create"] == COUNT
    empty.destroy()
    assert empty.cloud.items == []


def test_what_google_takes_silently_is_taken_over_and_destroyed_with_the_stack(empty: Rehearsal) -> None:
    empty.faults.add(["compute"], kind="orphan")
    with pytest.raises(RehearsalError, match="loses the answer to the creation of compute"):
        empty.up()
    assert "compute" in [item.name for item in empty.cloud.items]
    empty.up()
    empty.destroy()
    assert empty.cloud.items == []


@pytest.mark.parametrize("name", ["bucket", "namespace"])
def test_what_is_made_and_failed_stays_and_the_next_up_goes_on_with_it(empty: Rehearsal, name: str) -> None:
    empty.faults.add([name], kind="partial")
    with pytest.raises(RehearsalError, match=f"Error when reading or editing {name}"):
        empty.up()
    (before,) = (item for item in empty.cloud.items if item.name == name)
    assert in_state(empty, name)["initErrors"]
    empty.up()
    assert ("update", name) in empty.last.steps
    assert [item for item in empty.cloud.items if item.name == name] == [before]
    assert "initErrors" not in in_state(empty, name)
    assert empty.preview().changes == {"same": COUNT}
    empty.destroy()
    assert empty.cloud.items == []


def in_state(rehearsal: Rehearsal, name: str) -> dict[str, Any]:
    """A resource of the state by its logical name."""
    resources = rehearsal.state()["deployment"]["resources"]
    (resource,) = (entry for entry in resources if entry["urn"].endswith(f"::{name}"))
    return resource


def test_changed_data_replaces_the_config_map_alone(running: Rehearsal, small: Small) -> None:
    (before,) = (item.id for item in running.cloud.of_type(CONFIG_MAP))
    small.data = {"train.py": "print(2)"}
    plan = running.preview()
    assert plan.changes == {"same": COUNT - 1, "replace": 1}
    running.up()
    (after,) = (item for item in running.cloud.of_type(CONFIG_MAP))
    assert after.id != before
    assert after.inputs["data"] == {"train.py": "print(2)"}


def test_a_changed_location_replaces_the_bucket_and_a_label_does_not(
    running: Rehearsal, small: Small
) -> None:
    small.bucket = {"labels": {"a": "b"}}
    assert running.up().changes == {"same": COUNT - 1, "update": 1}
    (bucket,) = running.cloud.of_type(BUCKET)
    assert bucket.inputs["labels"] == {"a": "b"}


def test_what_vanished_is_drift(running: Rehearsal) -> None:
    (bucket,) = running.cloud.of_type(BUCKET)
    running.cloud.remove(bucket)
    assert running.refresh().changes == {"same": COUNT - 1, "delete": 1}


def test_a_new_configuration_reaches_the_next_operation(running: Rehearsal) -> None:
    running.configure({**SETTINGS, "hfToken": "hf_another"})
    assert running.preview().changed == 1
    running.up()
    (token,) = running.cloud.of_type("kubernetes:core/v1:Secret")
    assert token.inputs["stringData"] == {"token": "hf_another"}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"bucket": {"public_access_prevention": "enforce"}}, r"bucket: .*'enforce' is not one of enforced"),
        # In a cluster that does not exist yet.
        ({"data": {"a": 1}}, r"code: data\.a: 1 is not of type 'string'"),
        # This would only work by luck.
        ({"wait_for_api": False}, r"network: is not made to wait for compute\.googleapis\.com"),
    ],
)
def test_a_preview_tells_what_the_platform_would_reject(wrong: dict[str, Any], message: str) -> None:
    with (
        Rehearsal("small", SETTINGS, Small(**wrong)) as rehearsal,
        pytest.raises(RehearsalError, match=message),
    ):
        rehearsal.preview()


def test_a_dynamic_resource_runs_in_the_provider_that_the_rehearsal_brings() -> None:
    def program() -> None:
        pulumi.export("said", Echo("echo", "hello").echoed)

    with Rehearsal("small", SETTINGS, program) as rehearsal:
        rehearsal.up()
        (stack, *_) = rehearsal.state()["deployment"]["resources"]
        assert stack["outputs"] == {"said": "hello"}
        assert rehearsal.destroy().changes == {"delete": 2}


def test_an_error_of_the_program_comes_without_a_traceback() -> None:
    def program() -> None:
        raise pulumi.RunError("capacity.type: say spot")

    with (
        Rehearsal("small", SETTINGS, program) as rehearsal,
        pytest.raises(RehearsalError, match=r"^capacity\.type: say spot$"),
    ):
        rehearsal.preview()


def test_a_missing_setting_of_the_project_is_named() -> None:
    with Rehearsal("small", {}, Small()) as rehearsal, pytest.raises(RehearsalError) as raised:
        rehearsal.preview()
    assert "Missing required configuration variable 'llm-stacks:hfToken'" in str(raised.value)
    assert "stdout" not in str(raised.value)


def test_nothing_stays_on_disk(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Rehearsal("small", SETTINGS, small) as rehearsal:
        rehearsal.up()
        assert len(list(tmp_path.glob("llm-stacks-rehearsal-small-*"))) == 1
    assert list(tmp_path.iterdir()) == []
