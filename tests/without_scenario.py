"""Takes a scenario out of a copy of the checkout, and counts the tests that then fail.

python -m tests.without_scenario l4-kueue [PATH ...]   runs the tests in these paths, or in `FOLDERS`
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.project import ROOT
from operations.previews.checkout import copied
from operations.previews.stack_inputs import scenarios

# Where a test may meet any stack. The other folders run one stack's pods, or no stack at all.
FOLDERS: Final = tuple(
    f"tests/{name}" for name in ("components", "docs", "engine", "operations", "rehearsal", "stacks")
)
_OUTCOME: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


def files_of(scenario: str, copy: Path) -> Iterator[Path]:
    """A scenario's module, manifests, stack files with their pages and inventories, and its own tests."""
    module = scenario.replace("-", "_")
    yield copy / "stacks/scenarios" / f"{module}.py"
    yield from (copy / "workloads" / scenario).glob("*")
    for stack in stacks_of(scenario):
        yield copy / f"Pulumi.{stack}.yaml"
        yield copy / "docs/stacks" / f"{stack}.md"
        yield copy / "tests/inventories" / f"{stack}.yaml"
    yield from (copy / "tests").rglob(f"test_{module}*.py")


def stacks_of(scenario: str) -> list[str]:
    """The stacks that run a scenario."""
    return [stack for stack, name in scenarios().items() if name == scenario]


def is_about(test: str, scenario: str) -> bool:
    """Whether the file or the parameters of a test name the scenario, or a stack that runs it."""
    file, _, name = test.partition("::")
    parameters = name.partition("[")[2]
    names = (scenario, *stacks_of(scenario))
    return any(
        f"test_{stack.replace('-', '_')}" in file or re.search(rf"(?<!\w){stack}(?!\w)", parameters)
        for stack in names
    )


def failures(copy: Path, paths: list[str]) -> list[str]:
    """The ids of the tests that fail in a checkout, those that cannot be collected too."""
    command = [sys.executable, "-m", "pytest", *paths, "-o", "addopts=", "-q", "-rfE", "--tb=no"]
    command += ["-p", "no:cacheprovider", "--numprocesses", "2", "--dist", "worksteal"]
    command += ["--continue-on-collection-errors"]
    done = subprocess.run(command, cwd=copy, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout.splitlines()[-1])
    return _OUTCOME.findall(done.stdout)


def main(scenario: str, paths: list[str]) -> int:
    """Prints the failures that are not about the scenario. Returns 1 if there are some, and 0 otherwise."""
    with copied(ROOT) as copy:
        for path in files_of(scenario, copy):
            path.unlink(missing_ok=True)
        for path in (ROOT / ".tools", *ROOT.glob(".venv*")):
            (copy / path.name).symlink_to(path)
        # Some tests ask git for the files of the checkout, and for its commit.
        name = ["-c", "user.name=drill", "-c", "user.email=drill@example.com"]
        for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=copy"]):
            subprocess.run(["git", *name, *words], cwd=copy, check=True)
        subprocess.run(
            [sys.executable, "-m", "docs_generator"], cwd=copy, check=True, stdout=subprocess.DEVNULL
        )
        failed = failures(copy, paths)
    others = [test for test in failed if not is_about(test, scenario)]
    print(*others, sep="\n")
    own = len(failed) - len(others)
    print(f"without {scenario} fail {own} tests about it and {len(others)} about something else")
    return 1 if others else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.without_scenario")
    parser.add_argument("scenario", choices=sorted(set(scenarios().values())))
    parser.add_argument("paths", nargs="*", default=FOLDERS)
    options = parser.parse_args()
    sys.exit(main(options.scenario, options.paths))
