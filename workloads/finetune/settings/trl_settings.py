"""Settings that a recipe passes on to trl: their types, and trl's errors in one line."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, get_type_hints

from pydantic import TypeAdapter, ValidationError
from transformers import TrainingArguments
from trl import SFTConfig

from finetune.settings.sections import Training
from shared.errors import InputError, one_line


@contextmanager
def errors_of_trl(training: Training) -> Generator[None]:
    """Raises InputError for what trl refuses of the settings that a recipe passes on."""
    try:
        yield
    except (TypeError, ValueError, ImportError) as error:
        if not training.trl:
            raise
        raise InputError(f"training.trl: {one_line(error)}") from error


def checked(settings: dict[str, Any], kind: type[TrainingArguments] = SFTConfig) -> dict[str, Any]:
    """The settings in the types that trl declares. Raises ValueError for a value of another type.

    The library itself would find it only when it uses the value. It says itself which names it does not know.
    """
    types = get_type_hints(kind)
    values = {}
    for name, value in settings.items():
        try:
            values[name] = TypeAdapter(types.get(name, Any)).validate_python(value)
        except ValidationError as error:
            raise ValueError(f"{name} {value!r}: {error.errors()[0]['msg']}") from error
    return values
