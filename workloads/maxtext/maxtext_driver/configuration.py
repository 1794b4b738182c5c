"""MaxText's own configuration of a recipe; the only module that knows how MaxText reads and refuses settings.

Importing it imports MaxText and JAX, some ten seconds.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import maxtext
from maxtext.configs import pyconfig, types
from maxtext.configs.pyconfig import HyperParameters

from maxtext_driver.errors import InputError
from maxtext_driver.recipe import Recipe, did_you_mean

BASE = Path(maxtext.__file__).parent / "configs" / "base.yml"
MODELS = BASE.parent / "models"


def read_configuration(recipe: Recipe, **from_driver: Any) -> HyperParameters:
    """MaxText's configuration of the recipe and of what the driver adds, with everything derived.

    Raises InputError, in one line, for what MaxText does not know or take.
    """
    problems = [
        f"MaxText {version('maxtext')} has no setting {key}{did_you_mean(key, types.MaxTextConfig.model_fields)}"
        for key in recipe.maxtext
        if key not in types.MaxTextConfig.model_fields
    ]
    models = sorted(path.stem for path in MODELS.glob("*.yml"))
    name = str(recipe.maxtext["model_name"])
    # MaxText warns and trains its default model instead.
    if name not in models:
        problems.append(f"MaxText {version('maxtext')} has no model {name}{did_you_mean(name, models)}")
    if problems:
        raise InputError("; ".join(problems))
    try:
        return pyconfig.initialize(["", str(BASE)], **recipe.maxtext, **from_driver)
    except (Exception, SystemExit) as error:
        raise InputError(f"MaxText does not take this recipe: {_reason(error)}") from error


def check_configuration(recipe: Recipe, chips: int | None) -> HyperParameters:
    """The configuration as it will be on `chips` chips of TPU v6e (None: on CPU), without any of them.

    Raises InputError as `read_configuration` does.
    """
    slice_settings: dict[str, Any] = {"hardware": "cpu"}
    if chips:
        slice_settings = {"compile_topology": f"v6e-{chips}", "compile_topology_num_slices": 1}
    with _on_cpu(), _quiet():
        return read_configuration(
            recipe,
            skip_jax_distributed_system=True,
            base_output_directory="unused",
            run_name="unused",
            log_config=False,
            **slice_settings,
        )


def _reason(error: BaseException) -> str:
    """The first cause in one line; MaxText turns what it refuses into an exit code."""
    while error.__context__ is not None:
        error = error.__context__
    details = getattr(error, "errors", None)
    if callable(details):  # pydantic's ValidationError: all it found
        found = [(".".join(map(str, each["loc"])), each["msg"]) for each in details()]
        return "; ".join(f"{key}: {message}" if key else message for key, message in found)
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _on_cpu() -> Iterator[None]:
    """Where the driver runs there may be no TPU, or one that belongs to the workers."""
    before = jax.config.jax_platforms
    jax.config.update("jax_platforms", "cpu")
    try:
        yield
    finally:
        jax.config.update("jax_platforms", before)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without MaxText's banner around what it refuses; the reason comes in the InputError."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
