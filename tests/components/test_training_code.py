"""Which files of a package are shipped, and which edits of them begin another run."""

from pathlib import Path

import pytest

from components.storage.training_code import package_files, run_digest

MODULE = '''"""What the module is for.

# Not a comment.
"""

import os  # for the name


class Trainer:
    """Trains."""

    rate = "2e-4"

    def train(self) -> str:
        """Train
        for a while."""
        # One step.
        text = """
# Not a comment either.
"""
        return text + f"{self.rate}"
'''


def test_modules_are_shipped_and_nothing_else(tmp_path: Path) -> None:
    package = tmp_path / "package"
    (package / "recipes").mkdir(parents=True)
    for name in ("__init__.py", "train.py", "recipes/one.yaml", "requirements.txt", "Dockerfile"):
        (package / name).write_text(name)
    assert package_files(package) == {"package/__init__.py": "__init__.py", "package/train.py": "train.py"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("What the module is for.", "What this module is for,\nin two lines."),
        ("# Not a comment.\n", ""),
        ("  # for the name", ""),
        ("# One step.", "# Two\n\n        # steps."),
        ('"""Trains."""', '"""Trains for long."""  # and more'),
        ("Train\n        for a while.", "Train."),
    ],
)
def test_an_edited_comment_or_docstring_begins_no_run(before: str, after: str) -> None:
    assert before in MODULE
    assert run_digest({"a.py": MODULE.replace(before, after)}) == run_digest({"a.py": MODULE})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2e-4", "1e-4"),
        ("# Not a comment either.", "# not a comment either."),
        ("import os", "import sys"),
        ("        return text", "    return text"),
        ("{self.rate}", "{self.rate!r}"),
    ],
)
def test_any_other_edit_begins_another_run(before: str, after: str) -> None:
    assert before in MODULE
    assert run_digest({"a.py": MODULE.replace(before, after)}) != run_digest({"a.py": MODULE})


def test_a_recipe_counts_to_the_letter() -> None:
    assert run_digest({"a.yaml": "a: 1"}) != run_digest({"a.yaml": "a: 1  # one"})
