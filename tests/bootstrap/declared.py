"""The resources that the bootstrap declares, for its tests."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pytest

import stacks
from bootstrap import program
from bootstrap.settings import Settings

VALUES: dict[str, Any] = {
    "gcp:project": "my-project",
    "gcp:region": "us-central1",
    "stacks": {"a4-ray": "a4-ray", "dev": "cloudrun-vllm"},
    "githubRepository": "owner/name",
    "githubRepositoryId": "42",
    "gitlabProjectId": "7",
}
SETTINGS = Settings.model_validate(VALUES)
PROJECT_ROLE = "gcp:projects/iAMMember:IAMMember"


@dataclass
class Declared(pulumi.runtime.Mocks):
    """What the bootstrap declares: each with the outputs that the program reads.

    Args:
        resources: Type, name and inputs.
        protected: Names of those that are not destroyed.
        outputs: The outputs of the program.
    """

    resources: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    protected: set[str] = field(default_factory=set)
    outputs: dict[str, str] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        """Records a resource."""
        self.resources.append((args.typ, args.name, dict(args.inputs)))
        email = f"{args.name}@my-project.iam.gserviceaccount.com"
        computed = {"name": f"NAME-OF-{args.name}", "email": email, "member": f"serviceAccount:{email}"}
        return f"ID-OF-{args.name}", {**computed, **args.inputs}

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict[str, Any], None]:
        """Rejects it: the program calls no data source."""
        raise AssertionError(args.token)

    def of_type(self, ending: str) -> dict[str, dict[str, Any]]:
        return {name: inputs for kind, name, inputs in self.resources if kind.endswith(ending)}

    def project_roles(self, account: str) -> set[str]:
        bindings = self.of_type(PROJECT_ROLE).values()
        return {binding["role"] for binding in bindings if account in binding["member"]}

    def provider(self, forge: str) -> dict[str, Any]:
        return self.of_type(":WorkloadIdentityPoolProvider")[f"llm-{forge}"]


def declare() -> Declared:
    """Runs the program and returns what it declares."""
    resources = Declared()
    create = pulumi.CustomResource.__init__

    def noted(self: Any, kind: str, name: str, props: Any, opts: pulumi.ResourceOptions, *rest: Any) -> None:
        resources.protected |= {name} if opts.protect else set()
        create(self, kind, name, props, opts, *rest)

    asyncio.set_event_loop(asyncio.new_event_loop())
    # Another test's root resource belongs to another event loop.
    pulumi.runtime.settings.reset_options()
    pulumi.runtime.set_mocks(resources, project="llm-stacks-bootstrap", stack="test", preview=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pulumi.CustomResource, "__init__", noted)
        pulumi.runtime.test(lambda: _build(resources))()
    return resources


def _build(resources: Declared) -> Any:
    outputs = program.build(SETTINGS, stacks.scenario_modules())
    return pulumi.Output.all(**outputs).apply(resources.outputs.update)
