"""Without `imageUri` a stack builds the image of its training, and everything else is as with one."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from engine.plan import Plan
from rehearsal import Rehearsal
from stacks import cloudrun_vllm, gke_training, tpu_maxtext
from tests import plans

BUILD = ":Build"
RUNS = {
    "a4-ray": ("kubernetes:ray.io/v1:RayJob", gke_training),
    "a4-accelerate": ("kubernetes:batch/v1:Job", gke_training),
    "l4-kueue": ("kubernetes:batch/v1:Job", gke_training),
    "cloudrun-vllm": ("gcp:cloudrunv2/job:Job", cloudrun_vllm),
    "tpu-maxtext": ("kubernetes:ray.io/v1:RayJob", tpu_maxtext),
}
# What is built and shipped: the scenario's attribute that has the folder, and a module of its code.
FINETUNE = ("FINETUNE", "training.py")
WORKLOADS = {"tpu-maxtext": ("MAXTEXT", "maxtext_driver/worker.py")}


@pytest.fixture(params=RUNS)
def stack(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stack: str) -> Iterator[Path]:
    """A copy of the workload's folder that the program uses and a test may edit."""
    attribute, _ = WORKLOADS.get(stack, FINETUNE)
    scenario: ModuleType = RUNS[stack][1]
    folder: Path = getattr(scenario, attribute)
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    monkeypatch.setattr(scenario, attribute, copy)
    yield copy


def plan_of(stack: str, **overrides: str) -> Plan:
    with Rehearsal(stack, overrides) as rehearsal:
        return rehearsal.preview()


def test_a_given_image_is_not_built(stack: str) -> None:
    plan = plan_of(stack, imageUri=plans.IMAGE)
    assert not plans.of_type(plan, BUILD)
    assert not plans.of_type(plan, ":Repository")
    assert "cloudbuild" not in plans.text(plan)


def test_the_training_waits_for_the_image_and_runs_it_by_digest(stack: str) -> None:
    with Rehearsal(stack) as rehearsal:
        plan = rehearsal.preview()
        rehearsal.up()
        (run,) = rehearsal.cloud.of_type(RUNS[stack][0])
    assert f"{stack}-build" in plans.ancestors(plan, plans.named(plan, run.name))
    name = WORKLOADS.get(stack, FINETUNE)[0].lower()
    image = rf"us-\w+-docker\.pkg\.dev/rehearsal-project/images-{stack}/{name}@sha256:[0-9a-f]{{64}}"
    assert re.search(image, str(run.inputs))


def test_changed_libraries_are_built_once_and_run_anew_and_changed_code_is_not_built(
    stack: str, package: Path
) -> None:
    with Rehearsal(stack) as rehearsal:
        rehearsal.up()
        code = package / WORKLOADS.get(stack, FINETUNE)[1]
        code.write_text(code.read_text() + "# one line more\n")
        rehearsal.up()
        assert len(rehearsal.builds.builds) == 1

        (before,) = rehearsal.cloud.of_type(RUNS[stack][0])
        old = str(before.inputs)
        requirements = package / "requirements.txt"
        requirements.write_text(requirements.read_text() + "# one line more\n")
        rehearsal.up()
        (after,) = rehearsal.cloud.of_type(RUNS[stack][0])
        assert str(after.inputs) != old
        assert rehearsal.preview().changed == 0
        assert len(rehearsal.builds.builds) == 2


def test_the_clusters_nodes_read_the_repository_and_the_build_alone_writes_it() -> None:
    with Rehearsal("a4-ray") as rehearsal:
        rehearsal.up()
        grants = {
            (item.inputs["repository"], item.inputs["role"], item.inputs["member"].split("@")[0][:-7])
            for item in rehearsal.cloud.of_type(
                "gcp:artifactregistry/repositoryIamMember:RepositoryIamMember"
            )
        }
    assert grants == {
        ("images-a4-ray", "roles/artifactregistry.reader", "serviceAccount:a4-ray-nodes-"),
        ("images-a4-ray", "roles/artifactregistry.writer", "serviceAccount:a4-ray-builder-"),
    }


@pytest.mark.parametrize(("setting", "scanned"), [("false", "DISABLED"), ("true", "INHERITED")])
def test_scanning_is_a_setting(setting: str, scanned: str) -> None:
    repository = plans.only(plan_of("a4-ray", scanImages=setting), ":Repository")
    assert repository.inputs["vulnerabilityScanningConfig"] == {"enablementConfig": scanned}
