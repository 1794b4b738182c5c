"""Mocks for unit tests, over the same table of known outputs as the stand-ins."""

from dataclasses import dataclass
from typing import Any

import pulumi

from rehearsal.known_outputs import outputs_for
from rehearsal.wire import scrubbed

PROJECT = "rehearsal-project"


@dataclass(frozen=True)
class Registered:
    """A resource that the program registered.

    Args:
        type: Type token.
        name: Logical name.
        inputs: Its inputs in camelCase; secrets are the text `[secret]`.
    """

    type: str
    name: str
    inputs: dict[str, Any]


class RecordingMocks(pulumi.runtime.Mocks):
    """Answers with known outputs and remembers what was registered.

    Args:
        project: The provider's project, for resources that name none.
    """

    def __init__(self, project: str = PROJECT) -> None:
        self.project = project
        self.resources: list[Registered] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Records a resource and computes its outputs."""
        self.resources.append(Registered(args.typ, args.name, scrubbed(args.inputs)))
        return outputs_for(args.typ, args.name, args.inputs, self.project)

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        """Refuses: a program that calls no data source can be previewed without an account.

        Raises:
            AssertionError: Always.
        """
        raise AssertionError(f"the program calls {args.token}")

    def of_type(self, type_token: str) -> list[Registered]:
        """The registered resources of a type."""
        return [resource for resource in self.resources if resource.type == type_token]

    def named(self, name: str) -> Registered:
        """The one registered resource of a logical name that is not a component."""
        found = [each for each in self.resources if each.name == name and "/" in each.type]
        if len(found) != 1:
            raise LookupError(f"{len(found)} resources are named {name}")
        return found[0]
