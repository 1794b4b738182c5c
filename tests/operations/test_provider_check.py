"""The real providers' check of a new stack, against a fake `pulumi`."""

from pathlib import Path

import pytest

from engine.project import known_stacks
from operations.__main__ import main
from tests.operations.fake_pulumi import FakePulumi
from tests.operations.previews.reports import BUCKET, POOL, report, step


@pytest.fixture
def pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePulumi:
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return FakePulumi(tmp_path)


def test_every_stack_is_planned_as_a_new_one(pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]) -> None:
    pulumi.answer(
        preview=(report(step("create", BUCKET, "a", new={}), step("create", POOL, "b", new={})), "", 0)
    )
    assert main(["provider-check"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{stack}: 2 to create" for stack in known_stacks()]
    assert pulumi.calls[0] == ["install", "--no-dependencies"]
    assert [call[0] for call in pulumi.calls[1:4]] == ["stack", "config", "preview"]


def test_the_providers_have_no_account_and_reach_nothing(
    pulumi: FakePulumi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "a-token-of-somebody")
    pulumi.answer(preview=(report(), "", 0))
    main(["provider-check", "--stack", "dev"])
    environments = dict(zip([call[0] for call in pulumi.calls], pulumi.environments, strict=True))
    alone = environments["preview"]
    assert alone["GOOGLE_OAUTH_ACCESS_TOKEN"] == "dummy"
    assert alone["HTTPS_PROXY"] == alone["https_proxy"] == "http://127.0.0.1:9"
    assert alone["PULUMI_GCP_SKIP_REGION_VALIDATION"] == "true"
    assert alone["PULUMI_BACKEND_URL"].startswith("file:///")
    # Plugins are downloaded first, while the network is there.
    assert environments["install"].get("HTTPS_PROXY") != "http://127.0.0.1:9"


def test_secrets_go_in_by_standard_input(pulumi: FakePulumi) -> None:
    pulumi.answer(preview=(report(), "", 0))
    main(["provider-check", "--stack", "dev"])
    (call,) = [call for call in pulumi.calls if call[0] == "config"]
    assert call == ["config", "set", "--secret", "llm-stacks:hfToken", "--stack", "dev"]
    assert pulumi.text
    assert not [each for each in pulumi.environments if pulumi.text in each.values()]


def test_what_a_provider_refuses_is_told_and_fails(
    pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(preview=(report(errors=("gcp:storage/bucket:Bucket: location is wrong",)), "", 255))
    assert main(["provider-check", "--stack", "dev"]) == 1
    assert "dev: gcp:storage/bucket:Bucket: location is wrong" in capsys.readouterr().out


def test_an_engine_that_says_nothing_else_is_told_by_its_errors(
    pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(preview=("", "error: no language plugin 'pulumi-language-python' found", 255))
    assert main(["provider-check", "--stack", "dev"]) == 1
    assert "pulumi-language-python" in capsys.readouterr().out


def test_without_the_plugins_nothing_can_be_checked(
    pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]
) -> None:
    pulumi.answer(install=("", "error: could not download plugin", 255))
    assert main(["provider-check"]) == 2
    assert "pulumi install --no-dependencies: error: could not download" in capsys.readouterr().err


def test_a_stack_that_does_not_exist_is_told(pulumi: FakePulumi, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["provider-check", "--stack", "dve"]) == 2
    assert "there is no stack dve" in capsys.readouterr().err
    assert pulumi.calls == []
