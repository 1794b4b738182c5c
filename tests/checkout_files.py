"""The files of the checkout: those that git tracks, and new ones that it does not ignore."""

import subprocess

from engine.project import ROOT


def checkout_files(*patterns: str) -> list[str]:
    """Paths of the files that exist, from the root. Git's patterns choose some of them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.check_output(command, cwd=ROOT, text=True)
    return [path for path in listed.split("\0") if path and (ROOT / path).is_file()]
