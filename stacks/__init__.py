"""Builds the scenario that a stack's configuration names."""

import importlib
import pkgutil
from collections.abc import Mapping
from types import ModuleType
from typing import Final

import pulumi
from google.auth.exceptions import DefaultCredentialsError

from cloud.credentials import CredentialSettings, find_credentials
from components.base.retries import wait_out_refusals
from stacks import scenarios
from stacks.settings import Project
from stacks.settings.model import ConfigModel, is_secret, keys_of, values_by_key
from stacks.settings.reader import PROVIDER_SECRETS, ConfigReader, SettingsError, did_you_mean

Outputs = Mapping[str, pulumi.Input[str]]
# The output with the capacities of an `up`, for the next one.
_CAPACITIES: Final = "capacities"


def scenario_modules() -> dict[str, ModuleType]:
    """The module of every scenario, by the scenario's name."""
    modules = {name: _module(name) for name in _module_names()}
    return {name: scenario for name, scenario in modules.items() if scenario}


def scenario_of(config: ConfigReader) -> ModuleType:
    """The module of the scenario that a configuration names. No other scenario's module is imported.

    Raises:
        SettingsError: If there is no scenario of that name.
    """
    name = config.text("scenario")
    if name in _module_names() and (scenario := _module(name)):
        return scenario
    names = list(scenario_modules())
    problem = f"missing; set it with `pulumi config set scenario {'|'.join(names)}`"
    if name is not None:
        problem = f"{name!r} is not one of {', '.join(names)}{did_you_mean(name, names)}"
    raise SettingsError(config.stack, [("scenario", problem)])


def build() -> Outputs:
    """Declares the resources of the current stack from its configuration, and returns the stack's outputs.

    Raises:
        SettingsError: If the configuration has problems. It lists all of them, and nothing is registered.
        pulumi.RunError: If the engine is too old, or if an `up` has no credentials for Google.
    """
    config = ConfigReader.of_program()
    scenario = scenario_of(config)
    settings = config.read(scenario.Settings)
    wait_out_refusals()
    _require_credentials(config)
    outputs = scenario.build(settings)
    if isinstance(project := getattr(settings, "project", None), Project):
        project.warn_of_unused_registry()
    return {**outputs, **_for_later(config.stack, settings)}


def _for_later(stack: str, settings: ConfigModel) -> Outputs:
    """Outputs for the next `up`, and for a `destroy`, which runs no program and lists the outputs before."""
    types = values_by_key(settings).get("capacity.type")
    return {
        **({_CAPACITIES: ", ".join(types)} if types else {}),
        "ifDestroyFails": f"write its output to destroy.log; python -m operations explain --stack {stack} "
        "destroy.log says what to do",
    }


def _require_credentials(config: ConfigReader) -> None:
    """Ends an `up` without credentials before it creates anything, and not after 80 resources, at the build.

    A preview needs no credentials: pipelines for merge requests from forks have none.
    """
    if pulumi.runtime.is_dry_run():
        return
    try:
        find_credentials(None, settings=CredentialSettings.read(config.text))
    except DefaultCredentialsError as error:
        raise pulumi.RunError(str(error)) from None


def say_what_becomes_of_the_run(outputs: Outputs) -> None:
    """Prints that the stack trains another run than after the last `up`, or leaves a capacity.

    A preview prints it too.
    """
    stack = "/".join((pulumi.get_organization(), pulumi.get_project(), pulumi.get_stack()))
    # A StackReference would do the same, but as a resource, which every `refresh` would call changed.
    try:
        state = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": stack}).value or {}
    except Exception as error:
        # A backend may name stacks otherwise, such as a bucket in the layout of old versions of Pulumi. The
        # SDK raises no class of its own, and a sentence is worth no failed `up`.
        pulumi.log.debug(f"the run of the last up is not known: {error}")
        return
    _warn_of_capacities(str(state.get("outputs", {}).get(_CAPACITIES, "")), str(outputs.get(_CAPACITIES, "")))
    before, after = state.get("outputs", {}).get("run"), outputs.get("run")
    if before and before != after:
        pulumi.log.info(
            f"run {before} is no longer trained and keeps its checkpoints; run {after} goes on from its "
            "newest checkpoint, or starts from step 0 if it has none"
        )


def _warn_of_capacities(before: str, after: str) -> None:
    """Warns of each capacity that a stack had and leaves, because something may run on it."""
    gone = [name for name in before.split(", ") if name and name not in after.split(", ")]
    if gone:
        pulumi.log.warn(
            f"capacity.type no longer has {' and '.join(gone)}: what runs on these machines is stopped. A "
            "training saves and goes on elsewhere from its newest checkpoint, and a server is away "
            "meanwhile. Look with `python -m operations status` first; to let a job end, change "
            "capacity.type after it"
        )


def rehearsed(stack: str, project: str, values: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The facts about a configuration that a rehearsal asks the program for.

    Returns:
        The full keys of secret settings, and by full key a stand-in for every required value that only the
        stack's user has. Both are empty if the scenario is unknown: the program itself reports that.
    """
    config = ConfigReader(stack=stack, project=project, values=values, secrets=values)
    try:
        model = scenario_of(config).Settings
    except SettingsError:
        return [], {}
    secrets = [config.full(key) for key, field in keys_of(model).items() if is_secret(field)]
    return [*secrets, *PROVIDER_SECRETS], config.fakes(model)


def settings(stack: str, project: str, values: Mapping[str, str]) -> ConfigModel:
    """The settings of a configuration.

    Args:
        values: Texts by full key. All secrets may be fake.

    Raises:
        SettingsError: If the configuration has problems.
    """
    config = ConfigReader(stack=stack, project=project, values=values, secrets=values)
    return config.read(scenario_of(config).Settings)


def _module_names() -> list[str]:
    """The names of the modules in `stacks/scenarios`, with hyphens, as scenarios are named."""
    return [module.name.replace("_", "-") for module in pkgutil.iter_modules(scenarios.__path__)]


def _module(name: str) -> ModuleType | None:
    """The module of a name with hyphens, if it is a scenario."""
    module = importlib.import_module(f"{scenarios.__name__}.{name.replace('-', '_')}")
    return module if hasattr(module, "build") else None
