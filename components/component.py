"""What every component has besides its arguments."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, Literal, TypeVar, dataclass_transform

import pulumi

# Parts of a system, in the order in which a picture of it shows them.
Group = Literal["network", "image", "cluster", "identity", "storage", "workload"]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Args:
    """What a component is told: a frozen dataclass whose fields are given by name."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


A = TypeVar("A", bound=Args)


class Component(pulumi.ComponentResource, Generic[A]):
    """A component of this project.

    Args:
        name: Logical name, with which those of its children begin.

    Attributes:
        group: Part of the system that it belongs to; None for what no picture shows.
        apis: Google APIs that its resources call. Its argument `project` must not be known before they are
            enabled: `ProjectServices.project_with(*Bucket.apis)`.
    """

    group: ClassVar[Group | None]
    apis: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, args: A, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"llm-stacks:components:{type(self).__name__}", name, None, opts)
        self._declare(name, args)
        self.register_outputs({})

    @abstractmethod
    def _declare(self, name: str, args: A) -> None:
        """Declares its children, and sets what others see of it."""
