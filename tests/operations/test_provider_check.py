"""The real providers' check of a new stack, against a fake `pulumi`."""

import subprocess
from pathlib import Path

import pytest

from engine.project import known_stacks
from operations.previews import checkout
from tests import plans
from tests.operations.conftest import Command
from tests.operations.fake_pulumi import FakePulumi
from tests.operations.previews.reports import BUCKET, POOL, report, step

# The command copies the checkout, which does not have the tests' own stacks.
STACK = plans.stacks_with("hfToken")[0]


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    fake = FakePulumi(tmp_path)
    _executable(tmp_path / "pulumi-language-python")
    steps = step("create", BUCKET, "a", new={}), step("create", POOL, "b", new={})
    fake.answer(preview=(report(*steps), "", 0))
    return fake


def _executable(path: Path) -> None:
    path.touch(mode=0o755)


def test_what_is_checked_is_the_working_tree(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in (".gitignore", "stacks/new.py", "state/ignored.json", "gone.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("state/")
    subprocess.run(["git", "-C", tmp_path, "add", "gone.py"], check=True)
    (tmp_path / "gone.py").unlink()
    with checkout.copied(tmp_path) as copy:
        files = {str(path.relative_to(copy)) for path in copy.rglob("*") if path.is_file()}
    assert files == {".gitignore", "stacks/new.py"}


def test_an_engine_that_runs_no_program_is_refused_before_anything_is_done(
    pulumi: FakePulumi, command: Command
) -> None:
    (pulumi.folder / "pulumi-language-python").unlink()
    ran = command("provider-check")
    assert ran.status == 2
    assert "has no pulumi-language-python beside it" in ran.err and "pulumi.com/docs/install" in ran.err
    assert pulumi.calls == []


@pytest.mark.usefixtures("pulumi_got_earlier")
def test_the_engine_that_was_got_earlier_is_found_when_none_is_on_the_path(command: Command) -> None:
    assert command("provider-check", "--stack", STACK).status == 0


def test_every_stack_is_planned_as_a_new_one(pulumi: FakePulumi, command: Command) -> None:
    ran = command("provider-check")
    assert ran.status == 0
    assert ran.out.splitlines() == [f"{stack}: 2 to create" for stack in known_stacks()]
    assert pulumi.calls[0] == ["install", "--no-dependencies"]
    assert [call[0] for call in pulumi.calls[1:4]] == ["stack", "config", "preview"]


def test_the_providers_have_no_account_reach_nothing_and_secrets_go_in_by_standard_input(
    pulumi: FakePulumi, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token-of-somebody")
    command("provider-check", "--stack", STACK)
    install, _, config, preview = pulumi.runs
    alone = preview.environment
    assert alone["GOOGLE_OAUTH_ACCESS_TOKEN"] == "dummy"
    assert alone["HTTPS_PROXY"] == alone["https_proxy"] == "http://127.0.0.1:9"
    assert alone["PULUMI_GCP_SKIP_REGION_VALIDATION"] == "true"
    assert alone["PULUMI_BACKEND_URL"].startswith("file:///")
    # Plugins are downloaded first, while the network is there.
    assert install.environment.get("HTTPS_PROXY") != "http://127.0.0.1:9"
    assert config.call == ["config", "set", "--secret", "llm-stacks:hfToken", "--stack", STACK]
    assert config.text and not [run for run in pulumi.runs if config.text in run.environment.values()]


@pytest.mark.parametrize(
    "answer",
    [
        (report(errors=("gcp:storage/bucket:Bucket: location is wrong",)), "", 255),
        ("", "error: gcp:storage/bucket:Bucket: location is wrong", 255),
        ("Logging in\n", "error: gcp:storage/bucket:Bucket: location is wrong", 255),
    ],
    ids=["in its report", "without a report", "after something else"],
)
def test_what_a_provider_rejects_is_told_and_fails(
    answer: tuple[str, str, int], pulumi: FakePulumi, command: Command
) -> None:
    pulumi.answer(preview=answer)
    ran = command("provider-check", "--stack", STACK)
    assert ran.status == 1
    assert ran.out.startswith(f"{STACK}: ") and "gcp:storage/bucket:Bucket: location is wrong" in ran.out


def test_without_the_plugins_nothing_can_be_checked(pulumi: FakePulumi, command: Command) -> None:
    pulumi.answer(install=("", "error: could not download plugin", 255))
    ran = command("provider-check")
    assert ran.status == 2
    assert "pulumi install --no-dependencies: error: could not download" in ran.err


def test_a_stack_that_does_not_exist_is_told(pulumi: FakePulumi, command: Command) -> None:
    ran = command("provider-check", "--stack", "dve")
    assert ran.status == 2
    assert "there is no stack dve" in ran.err
    assert pulumi.calls == []
