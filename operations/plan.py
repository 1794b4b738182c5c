"""What a stack would be: the plan of its program, made on the real engine without a cloud."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import stacks
from engine import lookup, plan, project
from engine.command import ending
from engine.configuration import configuration
from engine.plan import Planned
from engine.project import ROOT, parse_override, project_name
from operations.errors import OperationError
from stacks.reader import as_text, keys_of


@dataclass(frozen=True, kw_only=True)
class StackPlan:
    """A stack as its program declares it.

    Args:
        configuration: Values in plain text by full key, such as `llm-stacks:scenario`; no secrets.
        resources: Every resource with its inputs, by URN; secrets in them are `[secret]`.
        warnings: What its program warns of.
        recipe: The recipe that it trains, None when it does not train.
    """

    stack: str
    project: str
    region: str
    configuration: Mapping[str, Any]
    resources: tuple[Planned, ...]
    warnings: tuple[str, ...] = ()
    recipe: Any = None

    def setting(self, name: str) -> Any:
        """A value of the configuration by the key that `pulumi config set` takes; None when it is not set."""
        return self.configuration.get(f"{project_name()}:{name}")

    @property
    def has_runs(self) -> bool:
        """Whether something of its scenario trains and then ends, so that there is a limit to set."""
        scenario = stacks.scenarios()[str(self.setting("scenario"))]
        return "maxRunHours" in keys_of(scenario.Settings)

    def of_type(self, *types: str) -> Iterator[Planned]:
        """Resources of these types, such as `gcp:container/nodePool:NodePool`."""
        return (resource for resource in self.resources if resource.type in types)


def load(stack: str, overrides: Sequence[str] = ()) -> StackPlan:
    """Plans a stack; takes some seconds.

    Args:
        stack: Name of the stack; its stack file is read.
        overrides: `KEY=VALUE` each, over the stack file's.

    Raises:
        EngineError: When there is no such stack, or its file cannot be read.
        OperationError: When its configuration is not complete, or the program rejects it.
    """
    project.require_stack(stack)
    found = configuration(stack, dict(parse_override(text) for text in overrides))
    # Nobody but the owner of the stack knows these, and a command that asks Google must not invent them.
    # A secret's value is not in the plan, so a fake one does no harm.
    missing = [key for key in found.fake if key not in found.secret]
    if missing:
        keys = (key.removeprefix(f"{project_name()}:") for key in missing)
        commands = "; ".join(f"pulumi config set {key} VALUE --stack {stack}" for key in keys)
        raise OperationError(f"stack {stack} has no value for {', '.join(missing)}: {commands}")
    planned = plan.read(rehearsed(stack, *(f"--set={text}" for text in overrides)))
    texts = {key: as_text(value) for key, value in {**found.plain, **found.secret}.items()}
    settings = stacks.settings(stack, project_name(), texts)
    return StackPlan(
        stack=stack,
        project=str(found.plain["gcp:project"]),
        region=str(found.plain.get("gcp:region", "")),
        configuration=found.plain,
        # The engine lists them in the order in which they happened to be registered.
        resources=tuple(sorted(planned.resources, key=lambda resource: resource.urn)),
        warnings=planned.warnings,
        recipe=getattr(settings, "trained_recipe", None),
    )


def rehearsed(stack: str, *options: str) -> str:
    """The preview of a stack, as `pulumi preview --json` prints it, by the command `python -m rehearsal`.

    Raises:
        EngineError: When there is no engine.
        OperationError: With what the command says when it fails.
    """
    # Getting one may take minutes, and says so.
    lookup.find()
    command = [sys.executable, "-m", "rehearsal", stack, "--json", *options]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal reaches this process alone, which ends the other
    ) as process:
        try:
            report, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        said = errors.strip() or f"python -m rehearsal {stack} {ending(process.returncode)}"
        raise OperationError(said.removeprefix(f"rehearsal {stack}: "))
    return report
