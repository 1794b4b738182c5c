"""The scenarios: each composes components from its settings and returns the stack's outputs."""

from collections.abc import Mapping

import pulumi

from stacks import a4_ray
from stacks.settings import A4Ray

Outputs = Mapping[str, pulumi.Input[str]]


def build(settings: A4Ray) -> Outputs:
    """Declares the resources of the scenario that `settings` belong to."""
    match settings:
        case A4Ray():
            return a4_ray.build(settings)
