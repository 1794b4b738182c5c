"""The repository of images: how it stays small."""

from collections.abc import Iterator
from typing import Any

import pytest

from rehearsal import Rehearsal
from tests.components.building import Building, rehearse

REPOSITORY = "gcp:artifactregistry/repository:Repository"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rehearsal, Building]]:
    """After one `up`."""
    with rehearse(tmp_path_factory.mktemp("project")) as (rehearsal, program):
        rehearsal.up()
        yield rehearsal, program


def inputs(rehearsal: Rehearsal) -> dict[str, Any]:
    [repository] = rehearsal.cloud.of_type(REPOSITORY)
    return repository.inputs


def test_old_images_go_and_the_newest_stay(stack: tuple[Rehearsal, Building]) -> None:
    found = inputs(stack[0])
    policies = {policy["id"]: policy for policy in found["cleanupPolicies"]}
    assert policies["keep-newest"]["mostRecentVersions"]["keepCount"] >= 2
    assert policies["delete-old-untagged"]["condition"]["tagState"] == "UNTAGGED"
    assert policies["delete-old"]["condition"]["tagState"] == "ANY"
    assert {policy["action"] for policy in policies.values()} == {"KEEP", "DELETE"}
    assert found["cleanupPolicyDryRun"] is False


def test_scanning_is_a_setting_that_touches_no_image(stack: tuple[Rehearsal, Building]) -> None:
    rehearsal, program = stack
    assert inputs(rehearsal)["vulnerabilityScanningConfig"] == {"enablementConfig": "DISABLED"}
    program.scanned = True
    assert rehearsal.up().changes["update"] == 1
    assert inputs(rehearsal)["vulnerabilityScanningConfig"] == {"enablementConfig": "INHERITED"}
    assert len(rehearsal.builds.builds) == 1
