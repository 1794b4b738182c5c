"""A run reads one commit of its model and one of its data set, from its first start to its result."""

import json
import shutil
from pathlib import Path

import pytest

from finetune.__main__ import main
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder, checkpoint_name
from rehearsal.running_pods.tiny import make_texts
from rehearsal.stand_ins.hub import Hub, Repository


@pytest.fixture
def repositories(hub: Hub, from_hub: list[str]) -> tuple[Repository, Repository]:
    """Model and data set of the run."""
    (model, data) = hub.repositories.values()
    return model, data


def commits_of(recipe: Recipe) -> set[str | None]:
    return set(recipe.commits.values())


def test_a_resume_reads_what_the_first_start_has_read_and_says_what_has_moved(
    repositories: tuple[Repository, Repository],
    from_hub: list[str],
    trained: list[Recipe],
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from finetune.rows.data import load_conversations

    assert main(from_hub) == 0
    first = {repository.branches["main"] for repository in repositories}
    assert commits_of(trained[0]) == first
    make_texts(tmp_path / "later", rows=30)
    later = repositories[1].push(tmp_path / "later" / "emoji")
    capsys.readouterr()
    assert main(from_hub) == 0
    assert trained[1] == trained[0]
    assert len(load_conversations(trained[1].data, seed=1)[0]) == 24
    kept = trained[0].data.revision
    (line_of_the_move,) = [line for line in capsys.readouterr().out.splitlines() if "moved on" in line]
    assert line_of_the_move.startswith(
        f"data set {trained[0].data.name} has moved on since this run began: {kept} -> {later};"
    )
    assert main([*from_hub, "--dry-run"]) == 0
    assert f"at {kept}, 6 held out" in capsys.readouterr().out


@pytest.mark.parametrize("section", [0, 1], ids=["model", "data"])
def test_a_commit_that_is_gone_is_said_with_what_to_do(
    section: int,
    repositories: tuple[Repository, Repository],
    from_hub: list[str],
    trained: list[Recipe],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(from_hub) == 0
    repository = repositories[section]
    gone, directory = repository.commits.popitem()
    repository.push(Path(shutil.copytree(directory, tmp_path / "again")))
    # A new machine.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    assert main(from_hub) == 2
    assert f"has no revision {gone} on the Hub, or no longer: " in capsys.readouterr().err


def test_a_recipe_may_name_the_revision(
    repositories: tuple[Repository, Repository],
    from_hub: list[str],
    trained: list[Recipe],
    tiny: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model, data = repositories
    old = model.branches["main"]
    model.push(tiny / "model")
    tagged = data.push(tiny / "emoji", branch="v1.0")
    named = [*from_hub, f"--set=model.revision={old}", "--set=data.revision=v1.0"]
    assert main(named) == 0
    assert trained[0].commits == {"model": old, "data": tagged}
    assert main([*from_hub, "--set=data.revision=v2.0"]) == 2
    assert "was started with another data.revision, model.revision;" in capsys.readouterr().err
    assert main([*from_hub, "--set=data.revision=v2.0", "--run=other"]) == 2
    assert "has no revision v2.0 on the Hub" in capsys.readouterr().err


def test_a_run_of_a_version_that_recorded_no_commits_keeps_those_of_its_next_start(
    repositories: tuple[Repository, Repository],
    from_hub: list[str],
    trained: list[Recipe],
    tiny: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(from_hub) == 0
    file = tmp_path / "store" / "mine" / "run.json"
    record = json.loads(file.read_text())
    del record["commits"], record["recipe"]["model"]["revision"], record["recipe"]["data"]["revision"]
    file.write_text(json.dumps(record))
    RunFolder(str(tmp_path / "store"), "mine").save_checkpoint(tiny / "text-model", checkpoint_name(2))
    now = repositories[0].push(tiny / "model")
    capsys.readouterr()
    assert main(from_hub) == 0
    assert (
        "run mine has trained without a record of commits: it keeps those of now" in capsys.readouterr().out
    )
    assert trained[1].model.revision == json.loads(file.read_text())["commits"]["model"] == now


@pytest.mark.slow
def test_every_process_of_a_training_reads_the_recorded_commits_and_the_result_names_them(
    hub: Hub, repositories: tuple[Repository, Repository], from_hub: list[str], tiny: Path, tmp_path: Path
) -> None:
    """The merge included. Both repositories move on as soon as the run has its commits."""
    commits = [repository.branches["main"] for repository in repositories]

    def move_on(path: str) -> None:
        if "/resolve/" in path and len(repositories[0].commits) == 1:
            for repository in repositories:
                repository.push(tiny / "model")

    hub.refusal = move_on
    assert main(["torchrun", *from_hub[1:], "--processes=2"]) == 0
    read = [request.split("/resolve/")[1].split("/")[0] for request in hub.requests if "/resolve/" in request]
    assert set(read) == set(commits)
    mine = tmp_path / "store" / "mine"
    assert list(json.loads((mine / "COMPLETE.json").read_text())["commits"].values()) == commits
    assert json.loads((mine / "adapter" / "adapter_config.json").read_text())["revision"] == commits[0]
