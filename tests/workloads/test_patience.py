"""A start waits for what may pass, once in all, and ends at once for what the user has to correct."""

import pytest
from conftest import Clock

from finetune.__main__ import main
from finetune.settings.recipe import Recipe, load_recipe
from finetune.storage.checkpoint import RunFolder
from rehearsal.stand_ins.answers import HANG_UP
from rehearsal.stand_ins.bucket import Buckets
from rehearsal.stand_ins.hub import Hub
from shared.errors import InputError, PassingError
from shared.patience import LIMIT

INVALID_TOKEN = {"x-error-message": "Invalid credentials in Authorization header"}


@pytest.mark.parametrize("status", [HANG_UP, 408, 429, 500, 503])
@pytest.mark.parametrize("what", ["/api/models/", "config.json", "/datasets/", "train.parquet"])
def test_a_hub_in_trouble_is_asked_again_until_it_answers(
    what: str,
    status: int,
    hub: Hub,
    clock: Clock,
    from_hub: list[str],
    trained: list[Recipe],
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusals = iter([(status, {})] * 3)
    hub.refusal = lambda path: next(refusals, None) if what in path else None
    assert main(from_hub) == 0
    assert len(trained) == 1
    assert clock.pauses == [1, 2, 4]
    waits = [line for line in capsys.readouterr().out.splitlines() if "again in" in line]
    assert len(waits) == 3
    assert hub.address in waits[2]
    assert waits[2].endswith("again in 4 s, after that for 473 s more")


@pytest.mark.parametrize(
    "headers", [{"retry-after": "17"}, {"ratelimit": '"api";r=0;t=17', "retry-after": "1"}]
)
def test_a_hub_that_says_when_to_come_back_is_left_alone_until_then(
    headers: dict[str, str], hub: Hub, clock: Clock, from_hub: list[str], trained: list[Recipe]
) -> None:
    refusals = iter([(429, headers)])
    hub.refusal = lambda _path: next(refusals, None)
    assert main(from_hub) == 0
    assert clock.pauses == [17]


def test_all_waiting_of_a_start_is_under_one_limit_and_ends_with_an_exit_code_to_try_again(
    hub: Hub, clock: Clock, from_hub: list[str], trained: list[Recipe], capsys: pytest.CaptureFixture[str]
) -> None:
    """The model's trouble lasts five minutes, then the data set's begins."""

    def refuse(path: str) -> tuple[int, dict[str, str]] | None:
        late = clock.now > 300
        return (503, {}) if ("datasets" in path if late else "models" in path) else None

    hub.refusal = refuse
    assert main(from_hub) == 1
    assert sum(clock.pauses) == clock.now == LIMIT
    assert not trained
    (error,) = capsys.readouterr().err.splitlines()[-1:]
    assert error.startswith(f"error: GET {hub.address}/api/datasets/me/")
    assert "503 Service Unavailable; given up after" in error


@pytest.mark.parametrize("section", ["model", "data"])
@pytest.mark.parametrize(
    ("status", "headers", "problem"),
    [
        (404, {"x-error-code": "RepoNotFound"}, "cannot be found, or the token in HF_TOKEN may not see it"),
        (403, {"x-error-code": "GatedRepo"}, "is gated and the token in HF_TOKEN gives no access: accept"),
        (401, INVALID_TOKEN, "the Hub does not know the token in HF_TOKEN; make one that reads at"),
    ],
)
def test_what_the_hub_refuses_ends_the_start_at_once_and_never_shows_the_token(
    section: str,
    status: int,
    headers: dict[str, str],
    problem: str,
    hub: Hub,
    clock: Clock,
    from_hub: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.tokens["hf_secret"] = set()
    hub.refusal = lambda path: (status, headers) if ("datasets" in path) == (section == "data") else None
    assert main(from_hub) == 2
    assert not clock.pauses
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert error.startswith(f"error: {'model' if section == 'model' else 'data set'} me/")
    assert problem in error
    assert "hf_secret" not in error


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        (None, "is gated and no token (set HF_TOKEN) gives"),
        ("hf_of_another", "is gated and the token in HF_TOKEN gives no access"),
        ("hf_unknown", "the Hub does not know the token in HF_TOKEN"),
        ("hf_mine", None),
    ],
)
def test_the_files_of_a_gated_model_are_for_those_who_accepted_its_licence(
    token: str | None,
    problem: str | None,
    hub: Hub,
    from_hub: list[str],
    trained: list[Recipe],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for (_, name), repository in hub.repositories.items():
        repository.gated = True
        hub.tokens |= {"hf_of_another": {"me/other"}, "hf_mine": {name}}
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    assert main(from_hub) == (2 if problem else 0)
    assert len(trained) == (0 if problem else 1)
    assert not problem or problem in capsys.readouterr().err


def test_of_torchrun_s_processes_only_the_first_asks_the_hub_before_training(
    hub: Hub, from_hub: list[str], trained: list[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert main(from_hub) == 0
    assert len(trained) == 1
    assert hub.requests == []


def claim() -> None:
    """Begin a run whose model and data are directories."""
    recipe = load_recipe("gemma-3-1b-emoji", ["model.name=/model", "data.name=/data"])
    RunFolder("gs://bucket/folder", "mine").claim(recipe, 1)


@pytest.mark.parametrize("status", [401, 403, 503])
@pytest.mark.usefixtures("impatient_client")
def test_a_bucket_to_which_the_rights_are_new_is_waited_for(
    status: int, buckets: Buckets, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    buckets.authorize = lambda _bucket, _token: status if clock.now < 5 else None
    claim()
    assert (buckets.folder / "bucket/folder/mine/run.json").is_file()
    assert clock.pauses == [1, 2, 4]
    assert "has no access to the bucket bucket" in capsys.readouterr().out


@pytest.mark.usefixtures("impatient_client")
def test_a_bucket_that_stays_closed_ends_the_start_with_an_exit_code_to_try_again(
    buckets: Buckets, clock: Clock
) -> None:
    buckets.authorize = lambda _bucket, _token: 403
    with pytest.raises(PassingError, match=r"storage gs://bucket/folder/mine: .*no access.* given up after"):
        claim()
    assert clock.now == LIMIT


@pytest.mark.usefixtures("impatient_client")
def test_a_bucket_that_does_not_exist_ends_the_start_at_once(buckets: Buckets, clock: Clock) -> None:
    (buckets.folder / "bucket").rmdir()
    with pytest.raises(InputError, match=r"storage gs://bucket/folder/mine cannot be used: .*does not exist"):
        claim()
    assert not clock.pauses
