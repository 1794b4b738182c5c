"""MaxText's own configuration for a recipe. Only this module knows how MaxText reads and rejects settings.

Importing it imports MaxText and JAX, which takes about ten seconds.
"""

import json
import logging
import re
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

from maxtext.checkpoint_conversion.utils.hf_shape import HF_SHAPE
from maxtext.checkpoint_conversion.utils.param_mapping import PARAM_MAPPING
from maxtext.configs import pyconfig, types
from maxtext.configs.pyconfig import HyperParameters
from maxtext.utils.maxtext_utils import calculate_tflops_training_per_device

import maxtext
from maxtext_driver.recipe import WEIGHTS, Recipe
from shared.errors import InputError
from shared.recipe_file import did_you_mean

BASE = Path(maxtext.__file__).parent / "configs" / "base.yml"
MODELS = BASE.parent / "models"
TOKENIZERS = BASE.parents[1] / "assets" / "tokenizers"
# By Ray's name of the chips: the version with which MaxText's names of slices begin, and the cores of a chip.
SLICES = {"TPU-V6E": ("v6e", 1), "TPU-V5LITEPOD": ("v5e", 1), "TPU-V5P": ("v5p", 2)}


def maxtext_arguments(recipe: Recipe, **from_driver: Any) -> list[str]:
    """The arguments of MaxText's own programs for a recipe, with those that the driver adds."""
    converted = {WEIGHTS: ""} if recipe.weights else {}  # The driver adds the folder of the weights.
    settings = {**recipe.maxtext, **converted, **from_driver, "log_config": False}
    # MaxText looks for its tokenizers in a checkout of its sources. Here they lie in the package.
    tokenizer = TOKENIZERS / str(settings.get("tokenizer_path"))
    if tokenizer.is_file():
        settings["tokenizer_path"] = str(tokenizer)
    return ["", str(BASE), *(f"{key}={json.dumps(value)}" for key, value in settings.items())]


def slice_settings(chips: int, accelerator: str = "TPU-V6E", slices: int = 1) -> dict[str, Any]:
    """Settings with which MaxText compiles for slices of TPU chips on a machine without one.

    Args:
        chips: Chips of each slice.
        accelerator: The chips as Ray names them.
    """
    if accelerator not in SLICES:
        known = ", ".join(SLICES)
        raise InputError(f"--accelerator must be one of {known}, not {accelerator!r}")
    version, cores = SLICES[accelerator]
    return {"compile_topology": f"{version}-{chips * cores}", "compile_topology_num_slices": slices}


def check_configuration(
    recipe: Recipe, chips: int | None, accelerator: str = "TPU-V6E", slices: int = 1
) -> HyperParameters:
    """MaxText's complete configuration on slices of `chips` TPU chips, or on CPU, with all derived values.

    No TPU is needed. Raises InputError with one line when MaxText does not know a setting or rejects it.
    """
    release = f"MaxText {version('maxtext')}"
    problems = [
        f"{release} has no setting {key}{did_you_mean(key, types.MaxTextConfig.model_fields)}"
        for key in recipe.maxtext
        if key not in types.MaxTextConfig.model_fields
    ]
    models = sorted(path.stem for path in MODELS.glob("*.yml"))
    name = str(recipe.maxtext["model_name"])
    # Otherwise MaxText warns and trains its default model.
    if name not in models:
        problems.append(f"{release} has no model {name}{did_you_mean(name, models)}")
    converted = PARAM_MAPPING.keys() & HF_SHAPE.keys()
    if recipe.weights and name not in converted:
        problems.append(f"{release} converts no weights of {name}{did_you_mean(name, converted)}")
    if problems:
        raise InputError("; ".join(problems))
    place = slice_settings(chips, accelerator, slices) if chips else {"hardware": "cpu"}
    arguments = maxtext_arguments(
        recipe, **place, base_output_directory="unused", run_name="unused", skip_jax_distributed_system=True
    )
    try:
        with _quiet():
            config = pyconfig.initialize(arguments)
    except (Exception, SystemExit) as error:
        raise InputError(f"{release} does not take this recipe: {_reason(error)}") from error
    if recipe.of_conversations:
        # The driver makes their tokens, with the tokenizer of the weights.
        return config
    tokenizer = str(config.tokenizer_path)
    if config.dataset_type != "synthetic" and re.fullmatch(r"[\w.-]+/[\w.-]+", tokenizer):
        raise InputError(
            f"{release} reads the tokenizer {tokenizer} from the Hub, at any commit; set tokenizer_path to a "
            "file of MaxText's package or to a folder of the mounted bucket, /data/FOLDER"
        )
    return config


def tflops_per_chip(config: HyperParameters) -> float:
    """TFLOP of one step as MaxText counts them, without recomputed activations."""
    with redirect_stdout(StringIO()):
        return calculate_tflops_training_per_device(config)[0]


def _reason(error: BaseException) -> str:
    """The original cause in one line. MaxText itself only exits with a code when it rejects a setting."""
    while error.__context__ is not None:
        error = error.__context__
    details = getattr(error, "errors", None)
    if callable(details):  # pydantic's ValidationError lists every problem
        problems = []
        for detail in details():
            key = ".".join(map(str, detail["loc"]))
            problems.append(f"{key}: {detail['msg']}" if key else detail["msg"])
        return "; ".join(problems)
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _quiet() -> Generator[None]:
    """Hide MaxText's banner about a rejected setting. InputError has the reason."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
