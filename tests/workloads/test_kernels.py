"""Liger's kernels are refused where a run would go on without them in silence."""

from pathlib import Path

import pytest
import transformers.utils
from liger_kernel.transformers import LigerGEGLUMLP
from transformers import AutoModelForCausalLM, PreTrainedConfig, StableLmConfig
from transformers.integrations.liger import apply_liger_kernel
from transformers.models.gemma3 import modeling_gemma3

from benchmarks.training import own_fit
from benchmarks.training.published import config_of
from finetune.model.kernels import check_gpu, check_kernels
from finetune.settings.recipe import RECIPES, load_recipe
from shared.errors import InputError

LIGER = "training.trl.use_liger_kernel=true"
SHIPPED = [path.stem for path in sorted(RECIPES.glob("*.yaml"))]


@pytest.mark.parametrize("name", SHIPPED)
def test_there_are_kernels_for_the_model_of_each_shipped_recipe(name: str) -> None:
    recipe = load_recipe(name, [LIGER])
    check_kernels(recipe, config_of(recipe.model.name))


def test_a_model_without_kernels_is_refused_by_its_name() -> None:
    recipe, config = load_recipe(SHIPPED[0], [LIGER, "model.name=somebody/stable"]), StableLmConfig()
    with pytest.raises(InputError, match="has no kernels for somebody/stable, a model of type stablelm"):
        check_kernels(recipe, config)
    check_kernels(load_recipe(SHIPPED[0]), config)


def test_an_image_without_the_package_and_a_machine_without_a_gpu_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = load_recipe(SHIPPED[0], [LIGER])
    with pytest.raises(InputError, match="needs a GPU, and this machine has none: leave it out here"):
        check_gpu(recipe)
    check_gpu(load_recipe(SHIPPED[0]))
    monkeypatch.setattr(transformers.utils, "is_liger_kernel_available", lambda: False)
    with pytest.raises(InputError, match="needs the package liger-kernel, which is not installed"):
        check_kernels(recipe, PreTrainedConfig())


def test_the_memory_of_a_step_with_kernels_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert own_fit.main(["--recipe", SHIPPED[0], "--set", LIGER]) == 2
    assert "only a GPU can tell what a step with liger's kernels takes" in capsys.readouterr().err


def test_the_kernels_take_the_place_of_a_models_layers(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Liger replaces them for the whole process.
    for name in ("apply_rotary_pos_emb", "Gemma3RMSNorm", "Gemma3MLP"):
        monkeypatch.setattr(modeling_gemma3, name, getattr(modeling_gemma3, name))
    model = AutoModelForCausalLM.from_pretrained(tiny / "text-model")
    apply_liger_kernel(model, {"fused_linear_cross_entropy": False})
    assert model.model.layers[0].mlp.forward.__func__ is LigerGEGLUMLP.forward
