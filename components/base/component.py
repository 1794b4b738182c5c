"""The base classes of all components and of their arguments."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar, dataclass_transform

import pulumi


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Args:
    """Arguments of a component. Every subclass is a frozen, keyword-only dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)


A = TypeVar("A", bound=Args)


class Component(pulumi.ComponentResource, Generic[A]):
    """A component of this project.

    Args:
        name: Logical name. The names of the children start with it.

    Attributes:
        apis: Google APIs that its resources call. Pass a `project` that waits for them, such as
            `ProjectServices.project_with(*Bucket.apis)`.
    """

    apis: ClassVar[tuple[str, ...]] = ()

    def __init__(self, name: str, args: A, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"llm-stacks:components:{type(self).__name__}", name, None, opts)
        self._declare(name, args)
        self.register_outputs({})

    @abstractmethod
    def _declare(self, name: str, args: A) -> None:
        """Declares the children and sets the public attributes."""
