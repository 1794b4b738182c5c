"""The commands `preview-comment`, which comments on a merge request, and `drift`."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.services.kubernetes import RELEASE
from operations import preview_comment
from operations.previews import checkout, engine_report, sources
from operations.previews.changes import StackPreview, from_json
from operations.previews.comment import MARKER
from operations.previews.redaction import Redaction
from operations.state import Backend, State
from rehearsal.session import Rehearsal
from tests import plans
from tests.operations.conftest import Command
from tests.operations.fake_pulumi import FakePulumi
from tests.operations.previews.forge_server import COMMIT, ForgeServer
from tests.operations.previews.reports import BUCKET, CONFIG_MAP, POOL, report, step

PASSPHRASE = "a-passphrase-of-nobody"
HF_TOKEN = "opaque-value-of-the-setting"
LEAK = {"description": f"made with {HF_TOKEN} and {PASSPHRASE}"}
IN_CLOUD = ("preview-comment", "--target", "main", "--cloud")


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
    fake = FakePulumi(tmp_path)
    configuration = {"llm-stacks:hfToken": {"value": HF_TOKEN, "secret": True}}
    listed = json.dumps(
        [{"name": "neutral-run"}, {"name": "organization/llm-stacks/neutral"}, {"name": "another"}]
    )
    empty = (report(same=60), "", 0)
    fake.answer(
        config=(json.dumps(configuration), "", 0), stack=(listed, "", 0), preview=empty, refresh=empty
    )
    return fake


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose branch changed one stack, in place of this one."""
    root = tmp_path / "repository"
    root.mkdir()

    def git(*words: str) -> None:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
        subprocess.run(["git", *name, *words], cwd=root, check=True, capture_output=True)

    git("init", "--initial-branch", "main")
    for name in ("neutral", "neutral-run"):
        (root / f"Pulumi.{name}.yaml").write_text(f"config:\n  llm-stacks:scenario: {name}\n")
    git("add", ".")
    git("commit", "--message", "one")
    git("switch", "--create", "branch")
    (root / "Pulumi.neutral-run.yaml").write_text(
        "config:\n  llm-stacks:scenario: neutral-run\n  gcp:region: r\n"
    )
    git("commit", "--all", "--message", "two")
    monkeypatch.setattr(preview_comment, "ROOT", root)
    return root


def test_only_the_stacks_whose_inputs_changed_are_previewed_and_nothing_is_changed(
    repository: Path, pulumi: FakePulumi, command: Command
) -> None:
    pulumi.answer(preview=(report(step("update", BUCKET, "bucket", old={"a": 1}, new={"a": 2})), "", 0))
    ran = command(*IN_CLOUD)
    assert ran.status == 0
    assert ran.out.startswith(MARKER)
    assert "| `neutral-run` | 0 | 0 | 1 | 0 | 0 |" in ran.out
    assert "Nothing that these stacks are made of has changed: `neutral`." in ran.out
    (listed, (asked, *_), read, preview) = pulumi.calls
    assert (listed, asked, read[:2]) == (["stack", "ls", "--json"], "config", ["stack", "export"])
    assert preview == ["preview", "--json", "--stack", "neutral-run"]


def test_a_stack_whose_file_the_branch_removes_is_told(
    repository: Path, pulumi: FakePulumi, command: Command
) -> None:
    (repository / "Pulumi.neutral.yaml").unlink()
    assert "**`neutral` is removed.**" in command(*IN_CLOUD).out
    assert pulumi.called("preview") == [["preview", "--json", "--stack", "neutral-run"]]


def test_secrets_of_the_stack_and_of_the_job_are_in_nothing_that_is_written(
    repository: Path, pulumi: FakePulumi, tmp_path: Path, command: Command
) -> None:
    saved = tmp_path / "saved" / "previews.json"
    pulumi.answer(preview=(report(step("create", BUCKET, LEAK["description"], new=LEAK)), "", 0))
    saving = command(*IN_CLOUD, "--save", str(saved))
    error = ("", f"error: {LEAK['description']}", 255)
    pulumi.answer(preview=error, refresh=error)
    failed, drifted = command(*IN_CLOUD), command("drift", "--stack", "neutral-run")
    assert failed.status == drifted.status == 1
    for text in (*saving[1:], *failed[1:], *drifted[1:], saved.read_text(), str(pulumi.calls)):
        assert HF_TOKEN not in text
        assert PASSPHRASE not in text
    assert "[secret]" in saved.read_text()
    for ran in (failed, drifted):
        assert "error: made with [secret] and [secret]" in ran.out


def test_what_was_saved_makes_the_same_comment(
    repository: Path, pulumi: FakePulumi, tmp_path: Path, command: Command
) -> None:
    saved = tmp_path / "previews.json"
    pulumi.answer(preview=(report(step("replace", POOL, "pool", old={}, new={})), "", 0))
    saving = command(*IN_CLOUD, "--save", str(saved))
    assert command("preview-comment", "--saved", str(saved)) == saving
    assert from_json(saved.read_text()).commit == checkout.head(repository)


@pytest.mark.parametrize(
    ("words", "message"),
    [(["--saved", "absent.json"], "absent.json"), (["--target", "no-such-branch"], "git fetch origin")],
)
def test_what_cannot_be_read_is_told_in_a_line(words: list[str], message: str, command: Command) -> None:
    ran = command("preview-comment", *words)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith("operations preview-comment: ")
    assert message in ran.err


@pytest.fixture
def forge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForgeServer]:
    with ForgeServer() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """What a job saved of a commit."""
    file = tmp_path / "previews.json"
    file.write_text(json.dumps({"commit": COMMIT, "stacks": []}))
    return str(file)


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_the_comment_is_posted(name: str, forge: ForgeServer, saved: str, command: Command) -> None:
    ran = command("preview-comment", "--saved", saved, "--forge", name, "--post")
    assert (ran.status, ran.err) == (0, "comment created\n")
    assert forge.bodies == [ran.out]


@pytest.mark.parametrize("name", ["github", "gitlab"])
@pytest.mark.parametrize("source", ["4711", "them/it", ""])
def test_a_comment_on_a_forks_merge_request_says_that_it_is_one(
    name: str, source: str, forge: ForgeServer, saved: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("preview-comment", "--saved", saved, "--forge", name)
    command(*words, "--post")
    assert "comes from a fork" not in forge.bodies[0]
    # The name is empty where the fork is gone.
    for variable in ("HEAD_REPOSITORY", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID"):
        monkeypatch.setenv(variable, source)
    command(*words, "--post")
    assert "comes from a fork" in forge.bodies[0]
    assert "comes from a fork" not in command(*words).out


def test_at_gitlab_the_previews_of_the_pipeline_are_fetched_as_data_and_posted(
    forge: ForgeServer, command: Command
) -> None:
    """The job that writes the comment unpacks nothing that the merge request's jobs have made."""
    previews = {"commit": COMMIT, "stacks": []}
    forge.saved = {"make: [check]": {"commit": "of another job"}, "preview": None, "preview-cloud": previews}
    ran = command("preview-comment", "--of-pipeline", "--commit", COMMIT, "--forge", "gitlab", "--post")
    assert (ran.status, ran.err) == (0, "comment created\n")
    assert forge.bodies == [ran.out]
    forge.saved = {"preview": {"commit": "d" * 40, "stacks": []}}
    assert "is not of commit cccc" in command("preview-comment", "--of-pipeline", "--commit", COMMIT).err
    forge.saved = {"preview": None}
    assert "its log says why" in command("preview-comment", "--of-pipeline", "--commit", COMMIT).out


def test_previews_of_another_commit_are_not_posted(forge: ForgeServer, saved: str, command: Command) -> None:
    """What a fork saved may name the commit of somebody else's pull request."""
    ran = command("preview-comment", "--saved", saved, "--commit", "d" * 40, "--post")
    assert ran.status == 2
    assert "is not of commit dddd" in ran.err
    assert forge.methods == []


def test_a_preview_that_failed_takes_the_place_of_the_comment_on_an_earlier_commit(
    forge: ForgeServer, saved: str, command: Command
) -> None:
    command("preview-comment", "--saved", saved, "--commit", COMMIT, "--post")
    Path(saved).unlink()
    ran = command("preview-comment", "--saved", saved, "--commit", COMMIT, "--post")
    assert (ran.status, ran.err) == (1, "comment updated\n")
    assert forge.bodies == [ran.out]
    assert "**`all stacks`: the preview failed.**" in ran.out and "its log says why" in ran.out


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"commit": "' + b"c" * 2_000_001 + b'", "stacks": []}',
        b'{"commit": "c", "stacks": [{"stack": "a", "unchanged": ' + b"9" * 5_000 + b"}]}",
        b'{"commit": "c", "stacks": [{"stack": "\\ud800"}]}',
        b'{"commit": "c", "stacks": [{"stack": "a", "changes": [{"kind": "evil\\nline"}]}]}',
    ],
)
def test_hostile_previews_are_refused_in_a_line_that_repeats_nothing(
    content: bytes, forge: ForgeServer, saved: str, command: Command
) -> None:
    Path(saved).write_bytes(content)
    ran = command("preview-comment", "--saved", saved, "--commit", COMMIT, "--post")
    assert (ran.status, ran.out, forge.methods) == (2, "", [])
    (line,) = ran.err.splitlines()
    assert line.startswith(f"operations preview-comment: {saved}: ") and len(line) < 400
    assert "evil" not in line and "9999" not in line


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/etc/hostname")])
def test_only_a_plain_file_is_read_and_nothing_is_waited_for(
    make: Callable[[Path], None], forge: ForgeServer, tmp_path: Path, command: Command
) -> None:
    make(tmp_path / "previews")
    saved = str(tmp_path / "previews")
    for more in ((), ("--commit", COMMIT, "--post")):
        ran = command("preview-comment", "--saved", saved, *more)
        assert (ran.status, ran.out, forge.methods) == (2, "", [])
        assert f"{saved}: it is no plain file; name one that --save wrote" in ran.err


def test_a_backend_that_cannot_be_asked_is_told_without_secrets(
    repository: Path, pulumi: FakePulumi, command: Command
) -> None:
    pulumi.answer(stack=("", f"error: 403 with {PASSPHRASE}", 255))
    ran = command(*IN_CLOUD)
    assert ran.status == 2
    assert "pulumi stack ls: error: 403 with [secret]" in ran.err


def test_a_stack_that_is_not_deployed_is_rehearsed(
    repository: Path, pulumi: FakePulumi, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr(sources, "rehearsed", lambda stack, _: StackPreview(stack=stack, unchanged=9))
    pulumi.answer(stack=("[]", "", 0))
    ran = command(*IN_CLOUD)
    assert "Nothing changes: `neutral-run`, against" in ran.out
    assert "rehearsed without a cloud" in ran.out
    assert not pulumi.called("preview")


def test_a_rehearsal_that_ends_without_a_word_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", str(shutil.which("false")))
    assert "ended with status 1" in sources.rehearsed("neutral-run", tmp_path).failure


def test_a_pulumi_that_prints_something_else_is_said_to(
    repository: Path, pulumi: FakePulumi, command: Command
) -> None:
    pulumi.answer(stack=("hello, I am a wrapper\n[]", "", 0))
    ran = command(*IN_CLOUD)
    assert ran.status == 2
    assert "pulumi stack ls prints no JSON; is the `pulumi` on PATH Pulumi's own?" in ran.err


@pytest.fixture
def no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stacks of a test have no network policies, which `drift` compares with their cluster."""
    monkeypatch.setattr(Backend, "now", lambda _: State())


@pytest.mark.usefixtures("no_policies")
def test_drift_is_looked_for_in_the_stacks_of_this_repository_that_exist(
    pulumi: FakePulumi, command: Command
) -> None:
    ran = command("drift")
    assert ran.status == 0
    assert "Nothing changes: `neutral`, `neutral-run`, against" in ran.out
    assert [call[-1] for call in pulumi.called("refresh")] == ["neutral", "neutral-run"]


@pytest.mark.usefixtures("pulumi_got_earlier", "no_policies")
def test_drift_finds_the_engine_that_was_got_earlier_when_none_is_on_the_path(
    pulumi: FakePulumi, command: Command
) -> None:
    assert command("drift", "--stack", "neutral-run").status == 0
    assert pulumi.called("refresh")


def test_drift_is_told_and_fails_the_job(pulumi: FakePulumi, command: Command) -> None:
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
    ran = command("drift", "--stack", "neutral-run", "--stack", "neutral")
    assert ran.status == 1
    assert "What has changed in the cloud" in ran.out
    assert "`storageClass`: `STANDARD` → `COLDLINE`" in ran.out
    assert ran.out.index("`neutral`") < ran.out.index("`neutral-run`")


def test_looking_for_drift_changes_nothing_and_reads_no_secret(pulumi: FakePulumi, command: Command) -> None:
    command("drift", "--stack", "neutral-run")
    (call,) = pulumi.called("refresh")
    sealed = "gcp:secretmanager/secretVersion:SecretVersion", "gcp:storage/bucketObject:BucketObject"
    excluded = {
        f"--exclude=**${type_token}::**"
        for type_token in (*sealed, "kubernetes:core/v1:Secret", RELEASE.type)
    }
    assert {"--preview-only", *excluded} <= set(call)


def test_the_engine_leaves_out_what_looking_for_drift_excludes() -> None:
    """On the real engine, with the secret and the bucket changed behind its back."""
    changed: dict[str, tuple[str, Any]] = {
        "SecretVersion": ("enabled", False),
        "BucketObject": ("cacheControl", "no-cache"),
        "Bucket": ("storageClass", "COLDLINE"),
    }
    with Rehearsal("neutral-run", {"imageUri": plans.IMAGE}) as rehearsal:
        rehearsal.up()
        for item in rehearsal.cloud.items:
            key, value = changed.get(item.type.rpartition(":")[2], ("", None))
            if key:
                item.inputs[key] = item.outputs[key] = value
        words = sources.drift_arguments()
        preview = engine_report.read("neutral-run", rehearsal.engine(words), Redaction())
        everything = engine_report.read("neutral-run", rehearsal.engine(words[:3]), Redaction())
    assert [change.name for change in preview.changes] == ["neutral-run-bucket"]
    assert len(everything.changes) > 1
