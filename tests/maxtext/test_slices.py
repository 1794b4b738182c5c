"""MaxText and Ray know every slice of the catalogue by the names that the driver gives them."""

import pytest

from cloud.slices import TPU_SLICES, Slice
from maxtext_driver.recipe import load_recipe
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

    _scaling(placement_on(shape, shape.hosts))
    if shape.hosts > 1:
        with pytest.raises(InputError, match="multiple of"):
            _scaling(placement_on(shape, shape.hosts - 1))


def placement_on(shape: Slice, workers: int, slices: int = 1) -> Placement:
    return Placement(
        workers=workers, topology=shape.topology, accelerator=shape.model.ray_name, slices=slices
    )


@pytest.mark.parametrize("shape", [shape for shape in SLICES if shape.hosts > 1], ids=lambda it: it.topology)
def test_ray_reserves_as_many_slices_as_are_asked_for(shape: Slice) -> None:
    from maxtext_driver.ray_driver import _scaling

    two = placement_on(shape, 2 * shape.hosts, slices=2)
    assert _scaling(two).num_workers == 2 * shape.hosts
    assert two.chips == 2 * shape.chips
    for workers, slices in ((2 * shape.hosts, 1), (shape.hosts, 2)):
        with pytest.raises(InputError, match=f"are the hosts of --slices {3 - slices}, not of --slices"):
            _scaling(placement_on(shape, workers, slices))


def test_the_batch_of_two_slices_is_twice_that_of_one_and_every_slice_has_all_weights(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from maxtext_driver.configuration import check_configuration
    from maxtext_driver.plan import print_plan

    recipe = load_recipe("llama3-8b")
    config = check_configuration(recipe, 16, slices=2)
    assert (config.num_slices, config.dcn_data_parallelism) == (2, -1)
    assert config.global_batch_size_to_train_on == recipe.batch_of(32)
    print_plan(recipe, 16, "TPU-V6E", 2)
    assert "batch   192 sequences of 4096 tokens on 2 slices of 16 chips" in capsys.readouterr().out


def test_a_recipe_that_divides_over_slices_is_refused_on_one() -> None:
    from maxtext_driver.configuration import check_configuration

    recipe = load_recipe("llama3-8b", ["dcn_fsdp_parallelism=2", "dcn_data_parallelism=1"])
    assert check_configuration(recipe, 16, slices=2).dcn_fsdp_parallelism == 2
    with pytest.raises(InputError, match="only one slice available"):
        check_configuration(recipe, 16)


def test_chips_that_maxtext_has_no_name_for_are_refused() -> None:
    from maxtext_driver.configuration import slice_settings

    with pytest.raises(InputError, match="TPU-V6E, TPU-V5LITEPOD, TPU-V5P, not 'TPU-V7X'"):
        slice_settings(4, "TPU-V7X")
