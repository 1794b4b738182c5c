"""What a plan takes from the Hugging Face Hub and from registries."""

from collections.abc import Iterator

import pytest

from operations.checks.hub import repositories
from operations.findings import Level
from tests.operations import good_project
from tests.operations.checking import check, good, levels, only
from tests.operations.google_server import (
    NOT_FOUND,
    REFUSED,
    GoogleServer,
    Page,
)
from tests.operations.planned import IMAGE, planned

TOKEN = "hf_planted_in_a_test"


@pytest.fixture
def google() -> Iterator[GoogleServer]:
    with GoogleServer() as server:
        yield server


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)


# The Hugging Face Hub


def test_a_token_that_is_not_accepted_is_told_and_never_shown(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    google.plant_page("huggingface/api/whoami-v2", Page(code=401, content={"error": "Invalid user token."}))
    found = only(check(google, plan, "Hugging Face"), Level.PROBLEM)
    assert "pulumi config set --secret hfToken" in found.remedy
    assert TOKEN not in found.what + found.remedy


def test_a_licence_that_was_not_accepted_is_told_with_its_page(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    gated = Page(code=403, content={}, headers={"X-Error-Code": "GatedRepo"})
    google.plant_page("huggingface/api/models/google/gemma-3-4b-it/auth-check", gated)
    found = only(check(google, plan, "Hugging Face"), Level.PROBLEM)
    assert found.what == "jane has not accepted the licence of model google/gemma-3-4b-it"
    assert "https://huggingface.co/google/gemma-3-4b-it" in found.remedy


def test_a_data_set_that_is_not_there_is_told(google: GoogleServer) -> None:
    plan = good(google, "a4-ray")
    missing = Page(code=404, content={}, headers={"X-Error-Code": "RepoNotFound"})
    name = "philschmid/amazon-product-descriptions-vlm"
    google.plant_page(f"huggingface/api/datasets/{name}/auth-check", missing)
    assert f"there is no dataset {name}" in only(check(google, plan, "Hugging Face"), Level.PROBLEM).what


@pytest.mark.parametrize("code", [429, 503])
def test_a_hub_that_does_not_answer_is_no_verdict(google: GoogleServer, code: int) -> None:
    plan = good(google, "a4-ray")
    google.plant_page("huggingface/api/whoami-v2", Page(code=code, content={}))
    assert levels(check(google, plan, "Hugging Face")) == {Level.UNKNOWN}


def test_a_stack_without_a_token_is_told_how_to_set_one(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    found = only(check(google, good(google, "a4-ray"), "Hugging Face"), Level.UNKNOWN)
    assert found.what == "the stack has no hfToken"
    assert "HF_TOKEN" in found.remedy


@pytest.mark.parametrize(
    ("stack", "names"),
    [
        ("a4-ray", {"google/gemma-3-4b-it", "philschmid/amazon-product-descriptions-vlm"}),
        ("dev", {"google/gemma-3-1b-it", "KomeijiForce/Text2Emoji"}),
    ],
)
def test_what_is_asked_of_the_hub_is_what_the_plan_trains(stack: str, names: set[str]) -> None:
    assert {name for _, name in repositories(planned(stack))} == names


FINEWEB = "recipe=llama3-8b-fineweb-edu"
FILES = "dataset=hf://datasets/team/texts/*.parquet"


@pytest.mark.parametrize(
    ("setting", "name"),
    [(FINEWEB, "HuggingFaceFW/fineweb-edu"), (FILES, "team/texts")],
    ids=("recipe", "setting"),
)
def test_a_stack_without_a_token_has_its_public_data_set_looked_up(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch, setting: str, name: str
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    plan = planned("tpu-maxtext", f"imageUri={IMAGE}", setting)
    assert repositories(plan) == [("dataset", name)]
    good_project.plant_hub(google, plan)
    assert levels(check(google, plan, "Hugging Face")) == {Level.FINE}
    missing = Page(code=404, content={}, headers={"X-Error-Code": "RepoNotFound"})
    google.plant_page(f"huggingface/api/datasets/{name}/auth-check", missing)
    found = only(check(google, plan, "Hugging Face"), Level.PROBLEM)
    assert found.what == f"there is no dataset {name}, or not for whoever has no token"


def test_a_stack_that_trains_on_made_up_data_needs_nothing_of_the_hub(
    google: GoogleServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    plan = planned("tpu-maxtext", f"imageUri={IMAGE}")
    assert [finding.what for finding in check(google, plan, "Hugging Face")] == ["nothing of it is used"]


def test_the_model_that_is_served_is_asked_for_too() -> None:
    plan = planned("l4-kueue")
    assert ("model", "google/gemma-3-12b-it") in repositories(plan)


# Images


def test_an_image_that_its_registry_does_not_have_is_told(google: GoogleServer) -> None:
    plan = good(google, "dev")
    assert "exists" in only(check(google, plan, "images"), Level.FINE).what
    google.plant_page(good_project.manifest(), Page(code=404, content={}))
    assert "does not exist" in only(check(google, plan, "images"), Level.PROBLEM).what
    google.plant_page(good_project.manifest(), Page(code=500, content={}))
    assert "registry-1.docker.io answers with 500" in only(check(google, plan, "images"), Level.UNKNOWN).what


def test_an_image_in_artifact_registry_is_looked_up_there(google: GoogleServer) -> None:
    plan = good(google, "a4-accelerate")
    assert levels(check(google, plan, "images")) == {Level.FINE}
    method = "artifactregistry.projects.locations.repositories.dockerImages.get"
    google.fail("artifactregistry.v1", method, NOT_FOUND)
    assert f"{IMAGE} does not exist" in only(check(google, plan, "images"), Level.PROBLEM).what
    google.fail("artifactregistry.v1", method, REFUSED)
    assert "may not look" in only(check(google, plan, "images"), Level.UNKNOWN).what
