"""The command that writes the comment of a merge request, and the one that looks for drift."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.project import ROOT
from operations import preview_comment
from operations.__main__ import main
from operations.previews import checkout, cloud, engine_report, rehearsed
from operations.previews.changes import StackPreview, from_json
from operations.previews.comment import MARKER
from operations.previews.redaction import Redaction
from rehearsal import Rehearsal
from tests import plans
from tests.operations.fake_pulumi import FakePulumi
from tests.operations.previews.forge_server import TOKEN, ForgeServer
from tests.operations.previews.reports import BUCKET, CONFIG_MAP, POOL, report, step

PASSPHRASE = "a-passphrase-of-nobody"
HF_TOKEN = "opaque-value-of-the-setting"
LEAK = {"description": f"made with {HF_TOKEN} and {PASSPHRASE}"}


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    fake = FakePulumi(tmp_path)
    configuration = {"llm-stacks:hfToken": {"value": HF_TOKEN, "secret": True}}
    listed = json.dumps([{"name": "dev"}, {"name": "organization/llm-stacks/l4-kueue"}, {"name": "another"}])
    fake.answer(config=(json.dumps(configuration), "", 0), stack=(listed, "", 0))
    return fake


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose branch changed one stack, in place of this one."""
    root = tmp_path / "repository"
    root.mkdir()

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words],
            cwd=root,
            check=True,
            capture_output=True,
        )

    git("init", "--initial-branch", "main")
    for stack in ("dev", "l4-kueue"):
        (root / f"Pulumi.{stack}.yaml").write_text(f"config:\n  llm-stacks:scenario: {stack}\n")
    (root / "README.md").write_text("read\n")
    git("add", ".")
    git("commit", "--message", "one")
    git("switch", "--create", "branch")
    (root / "Pulumi.dev.yaml").write_text("config:\n  llm-stacks:scenario: dev\n  gcp:region: r\n")
    git("commit", "--all", "--message", "two")
    monkeypatch.setattr(preview_comment, "ROOT", root)
    return root


def test_a_report_of_the_engine_becomes_a_comment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "dev.json"
    file.write_text(report(step("delete", BUCKET, "bucket", old={}), same=3))
    assert main(["preview-comment", "--report", f"dev={file}"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(MARKER)
    assert "**`dev`: 1 deleted.** What these hold is lost: `bucket`." in text


def test_only_the_stacks_whose_inputs_changed_are_previewed(
    repository: Path, pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(preview=(report(step("update", BUCKET, "bucket", old={"a": 1}, new={"a": 2})), "", 0))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 0
    text = capsys.readouterr().out
    assert "| `dev` | 0 | 0 | 1 | 0 | 0 |" in text
    assert "Nothing that these stacks are made of has changed: `l4-kueue`." in text
    previews = [call for call in pulumi.calls if call[0] == "preview"]
    assert previews == [["preview", "--json", "--stack", "dev"]]


def test_a_stack_whose_file_the_branch_removes_is_told(
    repository: Path, pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "Pulumi.l4-kueue.yaml").unlink()
    pulumi.answer(preview=(report(), "", 0))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 0
    assert "**`l4-kueue` is removed.**" in capsys.readouterr().out
    assert [call[-1] for call in pulumi.calls if call[0] == "preview"] == ["dev"]


def test_a_preview_in_the_cloud_changes_nothing(repository: Path, pulumi: FakePulumi) -> None:
    pulumi.answer(preview=(report(), "", 0))
    main(["preview-comment", "--target", "main", "--cloud"])
    assert {call[0] for call in pulumi.calls} == {"config", "preview", "stack"}
    assert ["stack", "ls", "--json"] in pulumi.calls


def test_secrets_of_the_stack_and_of_the_job_are_in_nothing_that_is_written(
    repository: Path, pulumi: FakePulumi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved" / "previews.json"
    arguments = ["preview-comment", "--target", "main", "--cloud", "--save", str(saved)]
    planted = step("create", BUCKET, LEAK["description"], new=LEAK)
    pulumi.answer(preview=(report(planted), "", 0))
    main(arguments)
    pulumi.answer(preview=("", f"error: {LEAK['description']}", 255))
    assert main(arguments[:4]) == 1
    shown = capsys.readouterr()
    for text in (shown.out, shown.err, saved.read_text()):
        assert HF_TOKEN not in text
        assert PASSPHRASE not in text
    assert "[secret]" in saved.read_text()
    assert "made with [secret] and [secret]" in shown.out
    assert not [call for call in pulumi.calls if HF_TOKEN in str(call) or PASSPHRASE in str(call)]


def test_a_failed_preview_is_in_the_comment_and_fails_the_job(
    repository: Path, pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(preview=("", "error: no stack named 'dev' found", 255))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 1
    assert "error: no stack named 'dev' found" in capsys.readouterr().out


def test_what_was_saved_makes_the_same_comment(
    repository: Path, pulumi: FakePulumi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "previews.json"
    pulumi.answer(preview=(report(step("replace", POOL, "pool", old={}, new={})), "", 0))
    main(["preview-comment", "--target", "main", "--cloud", "--save", str(saved)])
    made = capsys.readouterr().out
    assert main(["preview-comment", "--saved", str(saved)]) == 0
    assert capsys.readouterr().out == made
    assert from_json(saved.read_text()).commit == checkout.head(repository)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--report", "dev"], "write STACK=FILE"),
        (["--report", "dev=absent.json"], "absent.json"),
        (["--saved", "absent.json"], "absent.json"),
        (["--target", "no-such-branch"], "git fetch origin"),
    ],
)
def test_what_cannot_be_read_is_told_in_a_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["preview-comment", *words]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("operations preview-comment: ")
    assert message in shown.err
    assert shown.out == ""


def test_without_pulumi_the_remedy_is_told(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "git").symlink_to("/usr/bin/git")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 2
    assert "there is no pulumi on PATH" in capsys.readouterr().err


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    with ForgeServer() as server:
        for name, value in {
            "GITHUB_REPOSITORY": "owner/name",
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_API_URL": server.address,
            "CI_PROJECT_ID": "42",
            "CI_MERGE_REQUEST_IID": "5",
            "GITLAB_TOKEN": TOKEN,
            "CI_API_V4_URL": server.address,
        }.items():
            monkeypatch.setenv(name, value)
        yield server


def _saved(folder: Path, commit: str) -> Path:
    file = folder / "previews.json"
    file.write_text(json.dumps({"commit": commit, "stacks": [], "untouched": [], "removed": []}))
    return file


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_the_comment_is_posted_and_updated(name: str, forge: ForgeServer, tmp_path: Path) -> None:
    commit = "c" * 40
    forge.pulls = [{"number": 5, "state": "open", "head": {"sha": commit}}]
    words = ["preview-comment", "--saved", str(_saved(tmp_path, commit)), "--forge", name, "--post"]
    assert main(words) == 0
    assert main(words) == 0
    assert len(forge.comments) == 1
    assert forge.comments[0].body.startswith(MARKER)


def test_a_preview_that_a_newer_commit_has_overtaken_is_not_posted(
    forge: ForgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["preview-comment", "--saved", str(_saved(tmp_path, "c" * 40)), "--post"]
    assert main(words) == 0
    assert forge.comments == []
    assert "a newer commit has its own preview" in capsys.readouterr().err


def test_a_backend_that_cannot_be_asked_is_told_without_secrets(
    repository: Path, pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(stack=("", f"error: 403 with {PASSPHRASE}", 255))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 2
    assert "pulumi stack ls: error: 403 with [secret]" in capsys.readouterr().err


def test_a_stack_that_is_not_deployed_is_rehearsed(
    repository: Path,
    pulumi: FakePulumi,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(rehearsed, "preview", lambda stack, *rest: StackPreview(stack=stack, unchanged=9))
    pulumi.answer(stack=("[]", "", 0))
    assert main(["preview-comment", "--target", "main", "--cloud"]) == 0
    text = capsys.readouterr().out
    assert "| `dev` | 0 | 0 | 0 | 0 | 9 |" in text
    assert "rehearsed without a cloud" in text
    assert not [call for call in pulumi.calls if call[0] == "preview"]


def test_a_rehearsal_that_ends_without_a_word_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(shutil.which("false")))
    assert "ended with status 1" in rehearsed.preview("dev", tmp_path, Redaction([])).failure


def test_drift_is_looked_for_in_the_stacks_of_this_repository_that_exist(pulumi: FakePulumi) -> None:
    pulumi.answer(refresh=(report(), "", 0))
    assert main(["drift"]) == 0
    assert [call[-1] for call in pulumi.calls if call[0] == "refresh"] == ["dev", "l4-kueue"]


def test_previews_of_another_commit_are_not_posted(
    forge: ForgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a fork saved may name the commit of somebody else's pull request."""
    saved = str(_saved(tmp_path, "c" * 40))
    assert main(["preview-comment", "--saved", saved, "--commit", "d" * 40, "--post"]) == 2
    assert "is not of commit dddd" in capsys.readouterr().err
    assert forge.asked == []


def test_without_drift_all_is_well(pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]) -> None:
    pulumi.answer(refresh=(report(same=60), "", 0))
    assert main(["drift", "--stack", "dev"]) == 0
    assert "Nothing changes" in capsys.readouterr().out


def test_drift_is_told_and_fails_the_job(pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]) -> None:
    gone = step("delete", CONFIG_MAP, "code", old={})
    changed = step(
        "update",
        BUCKET,
        "bucket",
        old={"storageClass": "STANDARD"},
        new={"storageClass": "COLDLINE", **LEAK},
        detailedDiff={"storageClass": {"kind": "update", "inputDiff": True}},
    )
    pulumi.answer(refresh=(report(gone, changed), "", 0))
    assert main(["drift", "--stack", "l4-kueue", "--stack", "dev"]) == 1
    text = capsys.readouterr().out
    assert "What has changed in the cloud" in text
    assert "`storageClass`: `STANDARD` → `COLDLINE`" in text
    assert text.index("`dev`") < text.index("`l4-kueue`")


def test_looking_for_drift_changes_nothing_and_reads_no_secret(pulumi: FakePulumi) -> None:
    pulumi.answer(refresh=(report(), "", 0))
    main(["drift", "--stack", "dev"])
    (call,) = [call for call in pulumi.calls if call[0] == "refresh"]
    assert "--preview-only" in call
    assert "--exclude=**$gcp:secretmanager/secretVersion:SecretVersion::**" in call
    assert "--exclude=**$gcp:storage/bucketObject:BucketObject::**" in call
    assert "--exclude=**$kubernetes:core/v1:Secret::**" in call


def test_the_engine_leaves_out_what_looking_for_drift_excludes() -> None:
    """On the real engine, with the secret and the bucket changed behind its back."""
    with Rehearsal("dev", {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        for item in rehearsal.cloud.items:
            if item.type.endswith((":SecretVersion", ":BucketObject")):
                item.inputs["deletionPolicy"] = item.outputs["deletionPolicy"] = "ABANDON"
            if item.type.endswith(":Bucket"):
                item.inputs["storageClass"] = item.outputs["storageClass"] = "COLDLINE"
        words = cloud.drift_arguments()
        found = engine_report.read("dev", rehearsal.engine(words), Redaction())
        everything = engine_report.read("dev", rehearsal.engine(words[:3]), Redaction())
    assert [change.name for change in found.changes] == ["cloudrun-vllm-bucket"]
    assert len(everything.changes) > 1


def test_a_stack_that_cannot_be_refreshed_fails_the_job(
    pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(refresh=("", f"error: 403 for {HF_TOKEN}", 255))
    assert main(["drift", "--stack", "dev"]) == 1
    text = capsys.readouterr().out
    assert "error: 403 for [secret]" in text


def test_the_repository_itself_can_be_asked() -> None:
    assert checkout.changed_files(ROOT, checkout.head(ROOT)) == checkout.changed_files(ROOT, "HEAD")
