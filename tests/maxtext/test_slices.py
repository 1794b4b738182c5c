"""MaxText and Ray know every slice of the catalogue by the names that the driver gives them."""

import pytest

from cloud.slices import TPU_SLICES, Slice
from maxtext_driver.run_folder import Placement
from shared.errors import InputError

SLICES = [shape for shapes in TPU_SLICES.values() for shape in shapes.values()]


@pytest.mark.parametrize("shape", SLICES, ids=[shape.accelerator_type for shape in SLICES])
def test_maxtext_compiles_for_the_chips_and_the_shape_of_the_slice(shape: Slice) -> None:
    from maxtext.utils.accelerator_to_spec_map import get_system_characteristics

    from maxtext_driver.configuration import slice_settings

    name = slice_settings(shape.chips, shape.model.ray_name)["compile_topology"]
    characteristics = get_system_characteristics(name)
    assert characteristics.topology_name.partition(":")[2] == shape.topology
    assert characteristics.devices_per_slice == shape.chips


@pytest.mark.parametrize("shape", SLICES, ids=[shape.accelerator_type for shape in SLICES])
def test_ray_reserves_the_hosts_of_the_slice(shape: Slice) -> None:
    from maxtext_driver.ray_driver import _scaling

    placement = {"topology": shape.topology, "accelerator": shape.model.ray_name}
    _scaling(Placement(workers=shape.hosts, **placement))
    if shape.hosts > 1:
        with pytest.raises(InputError, match="multiple of"):
            _scaling(Placement(workers=shape.hosts - 1, **placement))


def test_chips_that_maxtext_has_no_name_for_are_refused() -> None:
    from maxtext_driver.configuration import slice_settings

    with pytest.raises(InputError, match="TPU-V6E, TPU-V5LITEPOD, TPU-V5P, not 'TPU-V7X'"):
        slice_settings(4, "TPU-V7X")
