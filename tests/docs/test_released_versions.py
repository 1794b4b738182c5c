"""A released version is a commit that its section of the changelog names, and the section never changes."""

import hashlib
import re
import subprocess
from typing import Final

import pytest

import stacks
from engine.project import ROOT
from stacks.settings.model import keys_of

# The commit of each version, and the beginning of its section's SHA-256.
RELEASED: Final = {
    "0.1.0": ("269cafa", "63509cc0"),
    "0.2.0": ("bd2fc0fa", "fec40f46"),
}


def sections() -> dict[str, str]:
    """The sections of released versions, by version."""
    parts = re.split(r"(?m)^## ", (ROOT / "CHANGELOG.md").read_text())[1:]
    texts = {part.split(",")[0]: f"## {part}".strip() for part in parts}
    return {version: text for version, text in texts.items() if re.fullmatch(r"[\d.]+", version)}


def git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_version_is_known_here() -> None:
    assert sections().keys() == RELEASED.keys()


@pytest.mark.parametrize("version", RELEASED)
def test_the_section_of_a_version_names_its_commit_and_is_as_it_was(version: str) -> None:
    commit, digest = RELEASED[version]
    text = sections()[version]
    assert f"Commit `{commit}`." in text
    assert hashlib.sha256(text.encode()).hexdigest().startswith(digest), "a released section never changes"


@pytest.mark.parametrize("version", RELEASED)
def test_the_commit_of_a_version_is_in_the_history(version: str) -> None:
    commit = RELEASED[version][0]
    is_cut = git("rev-parse", "--is-shallow-repository").stdout.strip() != "false"
    # A copy of the checkout may be a repository of one commit.
    if is_cut or git("rev-list", "--count", "HEAD").stdout.strip() == "1":
        pytest.skip("this checkout has no history")
    assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0


@pytest.mark.parametrize("version", RELEASED)
def test_a_section_names_no_setting_that_its_version_does_not_have(version: str) -> None:
    """A line that belongs to the next version is easily written into the last one."""
    commit = RELEASED[version][0]
    page = git("show", f"{commit}:docs/settings.md")
    if page.returncode:
        pytest.skip("this checkout has no history")
    keys = {key for module in stacks.scenario_modules().values() for key in keys_of(module.Settings)}
    words = set(re.findall(r"`([\w.:]+)`", sections()[version]))
    assert not {key for key in keys & words if f"`{key}`" not in page.stdout}


def test_no_version_rests_on_a_tag() -> None:
    """A tag does not leave a repository by itself."""
    pages = [ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "upgrade.md"]
    assert not [page.name for page in pages if re.search(r"git tag|tag `v|=v\d", page.read_text())]


def test_what_a_person_must_do_stands_first() -> None:
    unreleased = (ROOT / "CHANGELOG.md").read_text().partition("## Unreleased\n")[2]
    assert unreleased.lstrip().startswith("### What you must do\n\nBefore `pulumi up`:")
