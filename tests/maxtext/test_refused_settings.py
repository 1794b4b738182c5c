"""The settings that the driver refuses, against the installed MaxText."""

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from maxtext_driver.refused_settings import REFUSED, WITHOUT_EFFECT

TRAINING = (
    "maxtext.trainers.pre_train.train",
    "maxtext.input_pipeline.input_pipeline_interface",
    "maxtext.checkpoint_conversion.to_huggingface",
    "maxtext.checkpoint_conversion.to_maxtext",
)
# Converts weights between vLLM and MaxText, and is imported with the model. Nothing of a training calls it.
UNUSED = ("integration/vllm/",)
# The line of a setting's definition, which is no use of it.
DEFINITION = re.compile(r"^  \w+: ", re.MULTILINE)


@pytest.fixture(scope="module")
def users() -> dict[str, set[str]]:
    """The modules that a training or a conversion imports, by the words in them."""
    for name in TRAINING:
        import_module(name)
    modules: dict[str, set[str]] = {}
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) or ""
        other = name.endswith((".pyconfig_deprecated", ".train_compile")) or not file.endswith(".py")
        if name.startswith("maxtext.") and not other:
            place = Path(file).as_posix().rpartition("/maxtext/")[2]
            text = Path(file).read_text()
            if place == "configs/types.py":
                text = DEFINITION.sub("", text)
            for word in set(re.findall(r"\w+", text)):
                modules.setdefault(word, set()).add(place)
    return modules


def test_every_refused_setting_is_one_of_maxtext() -> None:
    from maxtext.configs import types

    assert not REFUSED.keys() - types.MaxTextConfig.model_fields.keys()


def test_no_setting_without_effect_is_named_where_a_training_would_read_it(
    users: dict[str, set[str]],
) -> None:
    """Modules of the configuration check settings of other programs, too."""
    keys = [key for keys in WITHOUT_EFFECT.values() for key in keys]
    read = {
        key: [place for place in users.get(key, ()) if not place.startswith(("configs/", *UNUSED))]
        for key in keys
    }
    assert not {key: places for key, places in read.items() if places}


def test_every_setting_that_nothing_of_a_training_names_is_refused(users: dict[str, set[str]]) -> None:
    from maxtext.configs import types

    unread = {
        key
        for key in types.MaxTextConfig.model_fields
        if all(place.startswith(UNUSED) for place in users.get(key, ()))
    }
    missing = unread - REFUSED.keys()
    assert missing == set()
