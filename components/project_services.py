"""The Google APIs that a stack calls."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_gcp as gcp


@dataclass(frozen=True, kw_only=True)
class ProjectServicesArgs:
    """Arguments of `ProjectServices`.

    Args:
        project: Project id.
        apis: Service names such as `container.googleapis.com`; one that several need may be repeated.
    """

    project: str
    apis: Sequence[str]


class ProjectServices(pulumi.ComponentResource):
    """Enables APIs and hands the project on through them.

    Whoever takes its project id from `project_with` waits for exactly these APIs.
    """

    def __init__(
        self, name: str, args: ProjectServicesArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("llm-stacks:components:ProjectServices", name, None, opts)
        self._services = {
            api: gcp.projects.Service(
                f"{name}-{api.removesuffix('.googleapis.com')}",
                project=args.project,
                service=api,
                # Other stacks of the project live on the same APIs.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
            for api in dict.fromkeys(args.apis)
        }
        self.register_outputs({})

    def project_with(self, *apis: str) -> pulumi.Output[str]:
        """The project id, known once all of `apis` are enabled.

        Raises:
            KeyError: When one of them is not among the arguments' apis.
        """
        projects = [self._services[api].project for api in apis]
        return pulumi.Output.all(*projects).apply(lambda known: known[0])
