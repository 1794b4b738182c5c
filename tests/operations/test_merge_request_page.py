"""docs/merge-requests.md says what is so."""

import re

import pytest

from bootstrap import roles
from engine.project import ROOT
from operations.__main__ import main

PAGE = (ROOT / "docs" / "merge-requests.md").read_text()
PIPELINES = [ROOT / ".gitlab-ci.yml", *(ROOT / ".github" / "workflows").glob("*.yml")]


def test_the_sample_is_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (command, sample) = re.findall(
        r"`python -m operations ([^`]*)`,[^`]*````markdown\n(.*?)````", PAGE, re.DOTALL
    )[0]
    words = command.replace("docs/", f"{ROOT}/docs/").split()
    assert main(words) == 0
    assert capsys.readouterr().out == sample


def test_the_sample_shows_a_loss_in_front_and_everything_that_can_happen() -> None:
    for words in ("[!CAUTION]", "forces the replacement", "1 updated", "1 created"):
        assert words in PAGE


def test_every_role_is_on_the_page_with_its_reason() -> None:
    rows = dict(re.findall(r"^\| `(roles/[\w.]+)` \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows == {**roles.PREVIEW, **roles.DEPLOY}
    for role in (roles.STATE_READER, roles.DECRYPTER, roles.ENCRYPTER):
        assert f"`{role}`" in PAGE


def test_every_pipeline_is_on_the_page() -> None:
    assert {file.name for file in PIPELINES} == set(re.findall(r"[\w.-]+\.yml", PAGE))


def test_the_variables_are_those_that_the_pipelines_read() -> None:
    text = "\n".join(file.read_text() for file in PIPELINES)
    read = set(re.findall(r"vars\.(\w+)", text)) | {"GITLAB_TOKEN", "GOOGLE_DEPLOY_ACCOUNT"}
    for name in read:
        assert f"`{name}`" in PAGE
