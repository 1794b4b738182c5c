"""The tutorial's machines and recipe are the defaults of a4-ray."""

from components.cluster.capacity import CapacityType
from tests.stacks.configuration import A4_RAY, load


def test_the_tutorial_s_machines_and_recipe_are_the_defaults() -> None:
    a4 = load(A4_RAY)
    assert (a4.workers, a4.training.recipe) == (2, "gemma-3-4b-vision")
    assert a4.capacity.capacity_types == (CapacityType.RESERVATION,)
