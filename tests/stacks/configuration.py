"""Configurations of the scenarios, read as a program reads its own."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import pulumi
import pytest

import stacks
from engine.configuration import configuration
from engine.project import project_name
from stacks.settings.reader import ConfigReader, SettingsError, as_text
from tests.neutral_stacks import NEUTRAL, neutral_stacks

# The configuration of a scenario that only the tests have.
GOOD = {
    "llm-stacks:scenario": NEUTRAL,
    "gcp:project": "my-project",
    "gcp:region": "us-central1",
    "llm-stacks:hfToken": "hf_secret_of_the_test",
    "llm-stacks:imageUri": f"us-docker.pkg.dev/my-project/images/finetune@sha256:{'a' * 64}",
}
_RESERVATION: Final = {"llm-stacks:capacity.reservation": "my-reservation"}
# What makes of GOOD a configuration of a4-ray.
A4_RAY: dict[str, str | None] = {"llm-stacks:scenario": "a4-ray", **_RESERVATION}
# The same of a4-accelerate.
A4_ACCELERATE: dict[str, str | None] = {"llm-stacks:scenario": "a4-accelerate", **_RESERVATION}
# The same of cloudrun-vllm.
CLOUDRUN: dict[str, str | None] = {"llm-stacks:scenario": "cloudrun-vllm"}
# The same of l4-kueue.
L4_KUEUE: dict[str, str | None] = {"llm-stacks:scenario": "l4-kueue"}
# The same of tpu-maxtext.
TPU_MAXTEXT: dict[str, str | None] = {
    "llm-stacks:scenario": "tpu-maxtext",
    "gcp:region": "us-east5",
    "llm-stacks:hfToken": None,
}
# The same of own.
OWN: dict[str, str | None] = {
    "llm-stacks:scenario": "own",
    "llm-stacks:hfToken": None,
    "llm-stacks:command": '["python", "train.py"]',
}
_TOKEN = ("llm-stacks:hfToken",)


def by_scenario(rows: Iterable[tuple[dict[str, str | None], str]]) -> list[Any]:
    """Changes of GOOD with the message about them. The id of a row names its scenario and key."""
    return [
        pytest.param(
            changes, message, id=f"{({**GOOD, **changes})['llm-stacks:scenario']}-{message.split(' ')[0]}"
        )
        for changes, message in rows
    ]


class _NoResources(pulumi.runtime.Mocks):
    """Settings are read before anything is registered."""

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict]:
        raise AssertionError(f"{args.name} was registered while the settings were read")

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict, None]:
        raise AssertionError(f"{args.token} was called while the settings were read")


def load(changes: dict[str, str | None], secrets: tuple[str, ...] = _TOKEN) -> Any:
    """The settings of GOOD with `changes`. None removes a key."""
    pulumi.runtime.set_mocks(_NoResources(), project="llm-stacks", stack="mine")
    values = {key: value for key, value in {**GOOD, **changes}.items() if value is not None}
    pulumi.runtime.set_all_config(values, list(secrets))
    try:
        with neutral_stacks():
            config = ConfigReader.of_program()
            return config.read(stacks.scenario_of(config).Settings)
    finally:
        pulumi.runtime.set_all_config({}, [])


def of_stack(stack: str, overrides: Mapping[str, str]) -> Any:
    """The settings of a stack file with `overrides`. A rehearsal fills in what it leaves out."""
    configured = configuration(stack, overrides)
    config = ConfigReader(
        stack=stack,
        project=project_name(),
        values={key: as_text(value) for key, value in {**configured.plain, **configured.secret}.items()},
        secrets=configured.secret,
    )
    return config.read(stacks.scenario_of(config).Settings)


def problems(changes: dict[str, str | None], secrets: tuple[str, ...] = _TOKEN) -> list[str]:
    """The messages about GOOD with `changes`."""
    with pytest.raises(SettingsError) as error:
        load(changes, secrets)
    return [": ".join(problem) for problem in error.value.problems]
