"""What a stack would be: the plan of its program, made on the real engine without a cloud."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from engine.errors import EngineError
from engine.plan import Planned
from engine.project import parse_override, project_name
from operations.errors import OperationError
from rehearsal import Rehearsal

# Values that nobody but the owner of the stack knows, and a command that asks Google must not invent.
# A secret's value is not in the plan, so a stand-in for it does no harm.
_PROJECT: Final = "gcp:project"
_REGION: Final = "gcp:region"
_TOKEN: Final = ":hfToken"


@dataclass(frozen=True, kw_only=True)
class StackPlan:
    """A stack as its program declares it.

    Args:
        stack: Name of the stack.
        project: Google Cloud project id.
        region: Google Cloud region.
        configuration: Values in plain text by full key, such as `llm-stacks:scenario`; no secrets.
        resources: Every resource with its inputs, by URN; secrets in them are `[secret]`.
    """

    stack: str
    project: str
    region: str
    configuration: Mapping[str, Any]
    resources: tuple[Planned, ...]

    def setting(self, name: str) -> Any:
        """A value of the configuration by the key that `pulumi config set` takes; None when it is not set."""
        return self.configuration.get(f"{project_name()}:{name}")

    def of_type(self, *types: str) -> Iterator[Planned]:
        """Resources of these types, such as `gcp:container/nodePool:NodePool`."""
        return (resource for resource in self.resources if resource.type in types)


def load(stack: str, overrides: Sequence[str] = ()) -> StackPlan:
    """Plans a stack; takes some seconds.

    Args:
        stack: Name of the stack; its stack file is read.
        overrides: `KEY=VALUE` each, over the stack file's.

    Raises:
        OperationError: When there is no such stack, its configuration is not complete, or the program
            refuses it.
    """
    try:
        rehearsal = Rehearsal(stack, dict(parse_override(text) for text in overrides), log=_log)
        configuration = rehearsal.configuration
        missing = [key for key in configuration.stood_in if not key.endswith(_TOKEN)]
        if missing:
            commands = "; ".join(f"pulumi config set {_short(key)} VALUE --stack {stack}" for key in missing)
            raise OperationError(f"stack {stack} has no value for {', '.join(missing)}: {commands}")
        with rehearsal:
            # The engine's order is that of its luck.
            resources = sorted(rehearsal.preview().resources, key=lambda resource: resource.urn)
    except EngineError as error:
        raise OperationError(str(error)) from None
    except yaml.YAMLError as error:
        raise OperationError(f"Pulumi.{stack}.yaml is no YAML: {' '.join(str(error).split())}") from None
    return StackPlan(
        stack=stack,
        project=str(configuration.plain[_PROJECT]),
        region=str(configuration.plain.get(_REGION, "")),
        configuration=configuration.plain,
        resources=tuple(resources),
    )


def _short(key: str) -> str:
    """A key as `pulumi config set` takes it: the project's own namespace goes without saying."""
    namespace, _, name = key.partition(":")
    return key if namespace == "gcp" else name


def _log(text: str) -> None:
    """The engine may have to be built first; standard output is the command's result alone."""
    print(text, file=sys.stderr)
