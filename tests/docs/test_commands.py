"""Every command in a document is tried, as far as that works without a cloud."""

import argparse
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

import bootstrap.settings
import stacks
from docs_generator.parts import scenarios
from engine.configuration import configuration
from engine.go_build import TOOLS
from engine.project import known_stacks, parse_override
from finetune.settings.recipe import load_recipe
from operations.previews.stack_inputs import stack_file
from stacks.settings.model import is_secret, keys_of
from tests import plans
from tests.docs.documents import DOCUMENTS, ROOT, WALKTHROUGH, Command, commands
from tests.stacks.configuration import of_stack

# Programs that need an account, and those that every shell has.
UNTRIED: Final = {
    "gcloud",
    "kubectl",
    "cd",
    "cp",
    "echo",
    "eval",
    "export",
    "git",
    "mkdir",
    "mktemp",
    "rm",
    "sudo",
    "tensorboard",
}
MAKEFILES: Final = "".join((ROOT / name).read_text() for name in ("Makefile", "pipelines.mk"))
COMMANDS: Final = [command for document in DOCUMENTS for command in commands(document)]


def of_program(*names: str) -> list[Command]:
    """The commands of a program, without duplicates."""
    by_words = {
        command.words: command for command in reversed(COMMANDS) if Path(command.words[0]).name in names
    }
    return sorted(by_words.values(), key=str)


def settings_commands() -> Iterator[tuple[str, Command]]:
    """Every `pulumi config set` and `rm` with the scenario that it is scenario, empty for any of them."""
    for command in of_program("pulumi"):
        if command.words[1:3] in (("config", "set"), ("config", "rm")):
            scenario = command.document.stem
            yield scenario if scenario in scenarios() else "", command
    for stack in known_stacks():
        path = ROOT / f"Pulumi.{stack}.yaml"
        for line, text in enumerate(path.read_text().splitlines(), start=1):
            match = re.search(r"#.*?(pulumi config (?:set|rm) .+?)(?:`|\s{2}|\s\(|$)", text)
            if match:
                yield stack_file(stack)["scenario"], Command(path, line, tuple(match[1].split()))


def is_placeholder(word: str) -> bool:
    """Whether a word stands for something of the reader's, such as MY_PROJECT, or for a command's output."""
    return bool(re.search(r"[A-Z]{2}|<|^[A-Z]+$|^\$\(", word))


def test_no_program_is_used_that_nobody_tries() -> None:
    tried = {"make", "pulumi", "python", "uv"}
    strange = [str(command) for command in COMMANDS if Path(command.words[0]).name not in UNTRIED | tried]
    assert not strange


@pytest.mark.parametrize("command", of_program("make"), ids=str)
def test_make_has_the_target(command: Command) -> None:
    wanted = [word for word in command.words[1:] if "=" not in word]
    done = subprocess.run(["make", "-n", *wanted], cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    for word in command.words[1:]:
        name, equals, value = word.partition("=")
        if equals:
            assert re.search(rf"^{name} \?=", MAKEFILES, re.MULTILINE)
        if name == "STACK" and not is_placeholder(value):
            added = (stack for folder in ("files", "server") for stack in known_stacks(WALKTHROUGH / folder))
            assert value in (*known_stacks(), *added)


# The project's own programs


class Parsed(Exception):
    """A command line was read to its end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options


@pytest.mark.parametrize("command", of_program("python"), ids=str)
def test_the_programs_options_are_what_it_takes(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command.words[1] == "-m", "a document runs Python with -m only"
    module, arguments = command.words[2], command.words[3:]
    assert find_spec(module)
    parse = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, args: Any = None, namespace: Any = None) -> None:
        raise Parsed(parse(parser, args, namespace))

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Parsed) as parsed:
        runpy.run_module(module, run_name="__main__")
    options = parsed.value.options
    if module == "rehearsal" and not is_placeholder(options.stack):
        of_stack(options.stack, dict(parse_override(text) for text in options.overrides))
        assert not options.fail_at or plans.named(
            plans.shipped(options.stack), options.fail_at.partition(":")[0]
        )
    if module == "finetune" and "recipe" in options and not is_placeholder(options.recipe):
        # tests/workloads/test_families.py tries the recipe that a page lets its reader save.
        own_recipe = f"Save this as `{Path(options.recipe).name}`"
        assert own_recipe in command.document.read_text() or load_recipe(options.recipe, options.overrides)


@pytest.mark.parametrize("command", of_program("uv"), ids=str)
def test_uv_has_the_command_and_its_options(command: Command) -> None:
    _, *path = takewhile(lambda word: not word.startswith("-"), command.words)
    uv = ROOT / ".venv" / "bin" / "uv"
    done = subprocess.run([uv, *path, "--help"], capture_output=True, text=True, check=True)
    known = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", done.stdout))
    assert {word.partition("=")[0] for word in command.words if word.startswith("-")} <= known


# Pulumi


def engine() -> str:
    """The engine's program, if it is here already."""
    program = shutil.which("pulumi", path=f"{os.environ['PATH']}{os.pathsep}{TOOLS / 'bin'}")
    if not program:
        pytest.skip("no pulumi on PATH or in .tools/; `make setup` gets one")
    return program


@cache
def help_of(*words: str) -> str:
    """What the engine says of a command."""
    return subprocess.run([engine(), *words, "--help"], capture_output=True, text=True, check=True).stdout


def usage_of(*words: str) -> str:
    """How the engine writes a command. `words` may use an alias of it."""
    (usage,) = re.findall(r"^Usage:\n +(.*)", help_of(*words), re.MULTILINE)
    return usage


@pytest.mark.parametrize("command", of_program("pulumi"), ids=str)
def test_the_engine_has_the_command_and_its_options(command: Command) -> None:
    path: list[str] = []
    for word in command.words[1:]:
        if word.startswith("-") or "[command]" not in help_of(*path):
            break
        assert usage_of(*path, word) != usage_of(*path), f"pulumi {' '.join(path)} has no command {word}"
        path.append(word)
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", help_of(*path)))
    used = {word.partition("=")[0] for word in command.words if word.startswith("-")}
    assert used <= known


@pytest.mark.parametrize(("scenario", "command"), list(settings_commands()), ids=str)
def test_a_setting_that_is_set_is_one_and_takes_the_value(scenario: str, command: Command) -> None:
    key, *values = [word for word in command.words[3:] if not word.startswith("-")]
    # With --path the word may go on into a map or a list.
    key, _, inner_key = key.partition("[")
    if is_placeholder(key) or key in keys_of(bootstrap.settings.Settings):
        return
    models = {name: module.Settings for name, module in stacks.scenario_modules().items()}
    # A map's entry may be a key of its own, such as accounts.nodes.
    map_key, _, entry = key.partition(".")
    if any(map_key in keys_of(model) for model in models.values()) and entry:
        key, inner_key = map_key, entry
    having = [name for name, model in models.items() if key in keys_of(model)]
    assert (scenario or having) and (scenario or having[0]) in having
    if values and not is_placeholder(values[0]):
        value = json.dumps({inner_key.strip('"]'): values[0]}) if inner_key else values[0]
        of_stack(scenario or having[0], {key: value})
    if "--secret" in command.words:
        assert is_secret(keys_of(models[having[0]])[key])


_OFFLINE = (ROOT / "docs" / "first-run.md").read_text().partition("## A preview without an account")[2]


@pytest.mark.parametrize(
    "stack", [*re.findall("`([a-z0-9-]+)`", " ".join(re.findall(r"^\| (`.*?) \|", _OFFLINE, re.MULTILINE)))]
)
def test_the_preview_without_an_account_can_be_set_up(stack: str, tmp_path: Path) -> None:
    """The block is run to the line before the preview, for which the providers' plugins are needed."""
    script, preview, rest = _OFFLINE.partition("```sh\n")[2].partition("pulumi preview --diff\n")
    assert preview and rest.startswith("```")
    (keys,) = re.findall(rf"^\| .*`{stack}`.* \| (.+) \|$", rest, re.MULTILINE)
    wanted = ["gcp:project", *re.findall("`(.+?)`", keys)]
    lines = [line for line in script.splitlines() if "config set" not in line or {*line.split()} & {*wanted}]
    for name in ("Pulumi.yaml", f"Pulumi.{stack}.yaml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    path = f"{Path(engine()).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-e", "-c", "\n".join(lines).replace("a4-ray", stack)],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), "PULUMI_HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    before, now = (
        yaml.safe_load((at / f"Pulumi.{stack}.yaml").read_text())["config"] for at in (ROOT, tmp_path)
    )
    assert now.keys() - before.keys() == {*configuration(stack, {}).fake}
    assert all(list(now[key]) == ["secure"] for key in now if key.endswith("hfToken"))
