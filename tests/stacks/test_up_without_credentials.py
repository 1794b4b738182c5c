"""An `up` without credentials for Google creates nothing. A preview needs none."""

from pathlib import Path

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal
from tests import plans


def test_an_up_without_credentials_makes_nothing_and_says_how_to_get_some_and_a_preview_needs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nobody.json"))
    # The program does not find the rehearsal's own token.
    monkeypatch.setattr("rehearsal.session.TOKEN_VARIABLE", "NOT_LOOKED_AT")
    with Rehearsal("dev", plans.known_settings("dev")) as rehearsal:
        rehearsal.preview()
        with pytest.raises(RehearsalError, match="run `gcloud auth application-default login`"):
            rehearsal.up()
        assert list(rehearsal.cloud.items) == []
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "of-a-test")
        assert rehearsal.up().changed
