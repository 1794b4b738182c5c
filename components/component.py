"""What every component has besides its arguments."""

from typing import ClassVar, Literal

import pulumi

# Parts of a system, in the order in which a picture of it shows them.
Group = Literal["network", "image", "cluster", "identity", "storage", "workload"]


class Component(pulumi.ComponentResource):
    """A component of this project.

    Attributes:
        group: Part of the system that it belongs to; None for what no picture shows.
        apis: Google APIs that its resources call. Its argument `project` must not be known before they are
            enabled: `ProjectServices.project_with(*Bucket.apis)`.
    """

    group: ClassVar[Group | None]
    apis: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, opts: pulumi.ResourceOptions | None) -> None:
        super().__init__(f"llm-stacks:components:{type(self).__name__}", name, None, opts)
