"""The commands of `pulumi` that documents, messages and `status` print as a cure work to their end."""

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import pytest

from components.base.remedy import DESTROY_ALL, KEEP_BUCKET
from engine.plan import Plan
from engine.project import ROOT
from rehearsal.errors import RehearsalError
from rehearsal.fakes.cloud import BUCKET
from rehearsal.session import Rehearsal
from tests import plans

ON_GKE: Final = plans.stacks_with("recipe", "clusterName")
AWAITABLE: Final = plans.stacks_with("waitForTraining")
PRINTED_IN: Final = ("README.md", "docs", "components", "stacks", "operations", "workloads")
# Commands with options that are printed as a cure, and where a test runs them.
TRIED: Final = {
    "pulumi up --replace": "test_the_training_is_run_again",
    "pulumi up --refresh --replace": "test_cloudrun_vllm.py",
    "pulumi up --refresh": "test_faults.py",
    "pulumi refresh --clear-pending-creates": "test_killed_engine.py",
    "pulumi destroy --exclude-protected": "test_a_protected_bucket_is_kept_and_later_deleted",
    "pulumi up --target": "test_the_release_of_the_bucket_changes_nothing_else",
}


def printed(file: Path) -> set[str]:
    """Commands with options in a file, also over the end of a line."""
    # A command that changes nothing is no cure.
    options = r"(?: --(?!stack|help|diff|yes|preview-only|json)[a-z-]+)+"
    return {
        *re.findall(rf"pulumi (?:up|destroy|refresh|state \w+){options}", " ".join(file.read_text().split()))
    }


def test_every_cure_that_is_printed_is_one_that_a_test_runs() -> None:
    files = [file for place in PRINTED_IN for file in [ROOT / place, *(ROOT / place).rglob("*")]]
    texts = [file for file in files if file.suffix in (".md", ".py", ".yaml")]
    assert set.union(*map(printed, texts)) == {*TRIED}


def names_of(plan: Plan) -> set[str]:
    return {resource.name for resource in plan.resources}


@pytest.mark.parametrize("stack", plans.mostly_slow(ON_GKE, quick=["a4-ray"]))
def test_the_training_is_run_again(stack: str) -> None:
    """After a mistyped token, a licence that was not accepted or wrong input, one more job is made."""
    settings = {"imageUri": plans.IMAGE, "hfToken": "hf_mistyped"}
    awaited = {"waitForTraining": "true"} if stack in AWAITABLE else {}
    with Rehearsal(stack, settings | awaited) as rehearsal:
        rehearsal.cloud.outcome = "Failed"
        # The Job that copies a model for the servers is always awaited.
        copies_a_model = any(name.endswith("-weights-job") for name in names_of(rehearsal.preview()))
        with pytest.raises(RehearsalError, match="failed") if awaited or copies_a_model else nullcontext():
            rehearsal.up()
        rehearsal.cloud.outcome = "Complete"
        rehearsal.configure(settings | awaited | {"hfToken": "hf_right"})
        job = plans.run_once(plans.standing_plan(rehearsal))
        rehearsal.up(replace=[job.urn])
        again = [step for step, name in rehearsal.last.steps if name == job.name]
        assert again == ["delete-replaced", "replace", "create-replacement"]
        assert plans.run_once(plans.standing_plan(rehearsal)).inputs["metadata"] == job.inputs["metadata"]
        assert not rehearsal.preview().changed
        rehearsal.remove()
        assert not rehearsal.cloud.items


@pytest.mark.parametrize(
    ("stack", "name"),
    [
        ("tpu-maxtext", "tpu-maxtext-cluster"),
        pytest.param("a4-ray", "a4-ray-cluster", marks=pytest.mark.slow),
        pytest.param("l4-kueue", "l4-kueue-l4-pool", marks=pytest.mark.slow),
    ],
)
def test_what_gke_made_and_calls_failed_is_made_anew(stack: str, name: str) -> None:
    lines: list[str] = []
    with Rehearsal(stack, {"imageUri": plans.IMAGE}, progress=lines.append) as rehearsal:
        rehearsal.faults.add([name], f'{name} was created in the error state "ERROR"', kind="partial")
        with pytest.raises(RehearsalError, match="was created in the error state"):
            rehearsal.up()
        (urn,) = {match[1] for line in lines if (match := re.search("`pulumi up --replace '(.+?)'`", line))}
        rehearsal.up(replace=[urn])
        assert ("create-replacement", name) in rehearsal.last.steps
        assert len([item for item in rehearsal.cloud.items if item.name == name]) == 1
        assert not rehearsal.preview().changed
        rehearsal.remove()
        assert not rehearsal.cloud.items


@pytest.mark.usefixtures("little_code")
@pytest.mark.parametrize("stack", plans.mostly_slow(plans.stacks_with("bucketName"), quick=["cloudrun-vllm"]))
def test_a_protected_bucket_is_kept_and_later_deleted(stack: str) -> None:
    with Rehearsal(stack, plans.known_settings(stack, imageUri=plans.IMAGE)) as rehearsal:
        rehearsal.up()
        before = sorted(item.key for item in rehearsal.cloud.items)
        with pytest.raises(RehearsalError, match="because it is protected"):
            rehearsal.destroy()
        assert sorted(item.key for item in rehearsal.cloud.items) == before
        rehearsal.destroy(exclude_protected=True)
        kept_types = {item.type for item in rehearsal.cloud.items}
        assert kept_types == {BUCKET, "gcp:projects/service:Service"}
        assert rehearsal.release()
        assert {item.type for item in rehearsal.cloud.items} == kept_types
        rehearsal.destroy()
        assert not rehearsal.cloud.items


def test_the_release_of_the_bucket_changes_nothing_else() -> None:
    """Also when the code or a setting has changed since the last `up`: nobody wants a run on the way out."""
    lines: list[str] = []
    with Rehearsal("a4-accelerate", {"imageUri": plans.IMAGE}, log=lines.append) as rehearsal:
        rehearsal.up()
        outputs = plans.outputs(rehearsal)
        assert (outputs["destroyAll"], outputs["destroyAllButBucket"]) == (DESTROY_ALL, KEEP_BUCKET)
        rehearsal.configure({"imageUri": plans.IMAGE, "recipeSet": '{"training.epochs": 1}'})
        assert rehearsal.preview().changed > 1
        assert rehearsal.release()
        changes = [(step, name) for step, name in rehearsal.last.steps if step != "same"]
        assert changes == [("update", "a4-accelerate-bucket")]
        assert f"{lines[-1]}; pulumi destroy" == DESTROY_ALL
        # Now `pulumi destroy` alone does it, and the other command would not keep the bucket.
        assert not [name for name in plans.outputs(rehearsal) if name.startswith("destroy")]
