"""The Google APIs that a stack calls."""

import pulumi
import pulumi_gcp as gcp

from components.base.component import Args, Component


class ProjectServicesArgs(Args):
    """Arguments of `ProjectServices`."""

    project: str


class ProjectServices(Component[ProjectServicesArgs]):
    """Enables Google APIs. A resource whose project comes from `project_with` waits for exactly its APIs."""

    def _declare(self, name: str, args: ProjectServicesArgs) -> None:
        self._name = name
        self._project = args.project
        self._services: dict[str, gcp.projects.Service] = {}

    def project_with(self, *apis: str) -> pulumi.Output[str]:
        """The project id, as an output that is known once all of `apis` are enabled.

        Args:
            apis: Service names such as `container.googleapis.com`. Components list theirs in `apis`.
        """
        self.enable(*apis)
        projects = [self._services[api].project for api in apis]
        return pulumi.Output.all(*projects).apply(lambda known: known[0])

    def enable(self, *apis: str) -> None:
        """Enables APIs that no resource has to wait for."""
        for api in apis:
            if api in self._services:
                continue
            self._services[api] = gcp.projects.Service(
                f"{self._name}-{api.removesuffix('.googleapis.com')}",
                project=self._project,
                service=api,
                # Other stacks in the project use the same APIs.
                disable_on_destroy=False,
                opts=pulumi.ResourceOptions(parent=self),
            )
