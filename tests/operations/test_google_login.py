"""A GitLab job's identity as Google's own library reads it."""

from pathlib import Path

import pytest
from google.auth import identity_pool

from operations.__main__ import main

PROVIDER = "projects/1/locations/global/workloadIdentityPools/forges/providers/gitlab"
ACCOUNT = "preview@my-project.iam.gserviceaccount.com"
TOKEN = "opaque-token-of-the-job"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "google" / "credentials.json"
    for name, value in {
        "GOOGLE_APPLICATION_CREDENTIALS": str(file),
        "GOOGLE_ID_TOKEN": TOKEN,
        "GOOGLE_PROVIDER": PROVIDER,
        "GOOGLE_ACCOUNT": ACCOUNT,
    }.items():
        monkeypatch.setenv(name, value)
    return file


def test_googles_library_reads_what_is_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["google-login"]) == 0
    assert main(["google-login"]) == 0
    found = identity_pool.Credentials.from_file(str(file))
    assert found.service_account_email == ACCOUNT
    assert found.retrieve_subject_token(None) == TOKEN
    assert TOKEN not in capsys.readouterr().out + file.read_text()


def test_nobody_else_can_read_the_token(file: Path) -> None:
    main(["google-login"])
    assert {each.stat().st_mode & 0o077 for each in file.parent.iterdir()} == {0}


@pytest.mark.parametrize("name", ["GOOGLE_ID_TOKEN", "GOOGLE_PROVIDER", "GOOGLE_ACCOUNT"])
def test_what_is_missing_is_named(
    file: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(name)
    assert main(["google-login"]) == 2
    assert f"{name} not set" in capsys.readouterr().err
    assert not file.exists()
