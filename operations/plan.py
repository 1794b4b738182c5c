"""The plan of a stack's program, from the real engine without a cloud."""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import stacks
from engine import lookup, plan, project
from engine.command import ending
from engine.configuration import configuration
from engine.plan import Planned
from engine.project import ROOT, parse_override, project_name
from operations.errors import OperationError
from stacks.settings.accounts import accounts_of
from stacks.settings.model import keys_of
from stacks.settings.reader import SettingsError, as_text


@dataclass(frozen=True, kw_only=True)
class StackPlan:
    """A stack as its program declares it.

    Args:
        configuration: Values by full key, such as `llm-stacks:scenario`, without secrets.
        resources: Every resource with its inputs, in the order of URNs. Secrets in them are `[secret]`.
        warnings: The program's warnings.
        recipe: The recipe that it trains, None when it does not train.
        accounts: Addresses of service accounts that exist before the stack, by what runs as them.
        fit_command: Computes the GPU memory that a training step takes. Empty if that is known.
        trial_command: Tries the recipe on a CPU. Empty if there is no trial of its trainer.
    """

    stack: str
    project: str
    region: str
    configuration: Mapping[str, Any]
    resources: tuple[Planned, ...]
    warnings: tuple[str, ...] = ()
    recipe: Any = None
    accounts: Mapping[str, str] = field(default_factory=dict)
    fit_command: tuple[str, ...] = ()
    trial_command: tuple[str, ...] = ()

    def setting(self, name: str) -> Any:
        """A value of the configuration by the key that `pulumi config set` takes, None if it is not set."""
        return self.configuration.get(f"{project_name()}:{name}")

    @property
    def has_runs(self) -> bool:
        """Whether something of its scenario trains and then ends, so that it can have a time limit."""
        return self.has_key("maxRunHours")

    def has_key(self, key: str) -> bool:
        """Whether its scenario has a setting."""
        scenario = stacks.scenario_modules()[str(self.setting("scenario"))]
        return key in keys_of(scenario.Settings)

    def of_type(self, *types: str) -> Iterator[Planned]:
        """The resources of these type tokens."""
        return (resource for resource in self.resources if resource.type in types)


def load(
    stack: str,
    overrides: Sequence[str] = (),
    *,
    is_sketch: bool = False,
    first: Callable[[], object] = lambda: None,
) -> StackPlan:
    """Plans a stack, which takes most of a minute on a busy machine.

    Args:
        stack: Name of the stack, whose file is read.
        overrides: Texts `KEY=VALUE` that override the stack file.
        is_sketch: Whether the names of resources are enough. Then values that only the owner knows, such as
            a reservation, are made up. A project never is.
        first: Is called when the configuration is right and before the engine starts, for example to look
            for credentials.

    Raises:
        EngineError: When there is no such stack, or its file cannot be read.
        OperationError: When the configuration is incomplete, or the program rejects it.
    """
    project.require_stack(stack)
    values = configuration(stack, dict(parse_override(text) for text in overrides))
    # Only the owner of the stack knows these values, and a command that asks Google must not invent them.
    # A secret's value is not in the plan, so a fake one does no harm.
    missing = [
        key for key in values.fake if key not in values.secret and (key.startswith("gcp:") or not is_sketch)
    ]
    if missing:
        keys = (key.removeprefix(f"{project_name()}:") for key in missing)
        commands = "; ".join(f"pulumi config set {key} VALUE --stack {stack}" for key in keys)
        raise OperationError(f"stack {stack} has no value for {', '.join(missing)}: {commands}")
    texts = {key: as_text(value) for key, value in {**values.plain, **values.secret}.items()}
    try:
        settings = stacks.settings(stack, project_name(), texts)
    except SettingsError as error:
        raise OperationError(str(error)) from None
    first()
    planned = plan.read(rehearsed(stack, *(f"--set={text}" for text in overrides)))
    training, fit = getattr(settings, "training", None), getattr(settings, "fit", None)
    return StackPlan(
        stack=stack,
        project=str(values.plain["gcp:project"]),
        region=str(values.plain.get("gcp:region", "")),
        configuration=values.plain,
        # The engine's order varies.
        resources=tuple(sorted(planned.resources, key=lambda resource: resource.urn)),
        warnings=planned.warnings,
        recipe=training.trained_recipe if training else None,
        accounts=accounts_of(settings),
        fit_command=tuple(fit.command) if fit else (),
        trial_command=tuple(getattr(training, "trial_command", ())),
    )


def rehearsed(stack: str, *options: str) -> str:
    """Runs `python -m rehearsal` and returns the preview as `pulumi preview --json` prints it.

    Raises:
        EngineError: When there is no engine.
        OperationError: When the command fails, with its message.
    """
    # A download or build of the engine may take minutes, and logs that.
    lookup.find()
    command = [sys.executable, "-m", "rehearsal", stack, "--json", *options]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C in the terminal reaches only this process, which ends the other
    ) as process:
        try:
            report, errors = process.communicate()
        except BaseException:
            process.terminate()
            raise
    if process.returncode:
        reason = errors.strip() or f"python -m rehearsal {stack} {ending(process.returncode)}"
        raise OperationError(reason.removeprefix(f"rehearsal {stack}: "))
    return report
