"""The scenarios, a module each: its `Settings`, and `build`, which composes components from them."""

import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType

import pulumi
from google.auth.exceptions import DefaultCredentialsError

from cloud.credentials import CredentialSettings, find_credentials
from components.retries import wait_out_refusals
from stacks.reader import ConfigReader, SettingsError, did_you_mean, is_secret, keys_of

Outputs = Mapping[str, pulumi.Input[str]]


def scenarios() -> dict[str, ModuleType]:
    """Every scenario by its name."""
    found = {name: _module(name) for name in _modules()}
    return {name: scenario for name, scenario in found.items() if scenario}


def scenario_of(config: ConfigReader) -> ModuleType:
    """The scenario that a configuration names; no other one's module is imported.

    Raises:
        SettingsError: When there is none of that name.
    """
    name = config.text("scenario")
    if name in _modules() and (scenario := _module(name)):
        return scenario
    known = list(scenarios())
    what = f"missing; set it with `pulumi config set scenario {'|'.join(known)}`"
    if name is not None:
        what = f"{name!r} is not one of {', '.join(known)}{did_you_mean(name, known)}"
    raise SettingsError(config.stack, [("scenario", what)])


def build() -> Outputs:
    """Declares what the configuration of the current stack says, and returns the stack's outputs.

    Raises:
        SettingsError: With every problem of the configuration; nothing has been registered then.
        pulumi.RunError: When the engine is too old, or in an `up` without credentials for Google.
    """
    config = ConfigReader.of_program()
    scenario = scenario_of(config)
    settings = config.read(scenario.Settings)
    wait_out_refusals()
    _require_credentials(config)
    return scenario.build(settings)


def _require_credentials(config: ConfigReader) -> None:
    """Ends an `up` without credentials here, and not at the build or the job, after 80 resources.

    A preview needs none: the pipelines of merge requests from forks have none.
    """
    if pulumi.runtime.is_dry_run():
        return
    try:
        find_credentials(None, settings=CredentialSettings.read(config.text))
    except DefaultCredentialsError as error:
        raise pulumi.RunError(str(error)) from None


def rehearsed(stack: str, project: str, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """What a rehearsal must know of a configuration; it asks the program that it rehearses.

    Returns:
        The full keys whose values must be stored encrypted, and by full key the values that stand in for
        those that only the stack's user has. Nothing where the scenario is unknown: the program says so.
    """
    config = ConfigReader(stack=stack, project=project, values=values, secrets=values)
    try:
        model = scenario_of(config).Settings
    except SettingsError:
        return [], {}
    secrets = [config.full(key) for key, field in keys_of(model).items() if is_secret(field)]
    return secrets, config.fakes(model)


def _modules() -> list[str]:
    """The modules of this package, by the name that a scenario in them has: the module's, with hyphens."""
    return [module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)]


def _module(name: str) -> ModuleType | None:
    """A module, if it is a scenario's."""
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    return module if hasattr(module, "build") else None
