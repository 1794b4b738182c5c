"""What a run can train for, what it cannot and why, and the rules of preferences."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from finetune.settings.recipe import Recipe
    from finetune.settings.sections import Data

# Why a recipe cannot name another task.
NOT_BUILT: Mapping[str, str] = MappingProxyType(
    {
        "grpo": "it needs a server that generates during the training, and rewards of yours",
        "ppo": "it needs a reward model and a server that generates during the training",
        "rloo": "it needs a server that generates during the training, and rewards of yours",
        "online-dpo": "it needs a server that generates during the training, and a judge",
        "kto": "trl calls its trainer experimental. Pairs of replies train with task: preference",
        "orpo": "trl calls its trainer experimental. task: preference keeps to a reference instead",
        "cpo": "trl calls its trainer experimental. task: preference has its losses without it",
        "reward": "nothing here serves or uses a model with scores in place of words",
        "prm": "nothing here serves or uses a model with scores in place of words",
        "distillation": "it needs a second, larger model in memory, which teaches the first",
        "classification": "nothing here serves a model with classes in place of words",
        "embedding": "nothing here serves a model of embeddings",
    }
)
# The rate of a new adapter is too high for it. trl's own default is 1e-6, and says ten times with an adapter.
_PREFERENCE_RATE = 1e-5
_REFERENCE = "the model without the trained adapter is the reference, and it is asked in each step"
# Settings of trl's DPOConfig that its SFTConfig does not have, or that do something else there.
PREFERENCE_REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "beta": "it is training.beta in a recipe",
        "disable_dropout": "trl switches dropout off for both replies",
        "padding_free": "trl pads pairs of replies, whatever it says",
        "precompute_ref_batch_size": _REFERENCE,
        "precompute_ref_log_probs": _REFERENCE,
        "ref_model_mixup_alpha": _REFERENCE,
        "ref_model_sync_steps": _REFERENCE,
        "sync_ref_model": _REFERENCE,
    }
)
# Passed on to trl as they are.
PREFERENCE_PASSED_ON = frozenset(
    {
        *("discopop_tau", "f_alpha_divergence_coef", "f_divergence_type", "label_smoothing", "ld_alpha"),
        *("loss_type", "loss_weights", "use_weighting"),
    }
)


def is_task(task: object) -> object:
    """The task. Raises ValueError with the reason for one that is not built."""
    if isinstance(task, str) and (reason := NOT_BUILT.get(task.lower())):
        raise ValueError(f"{task} is not built: {reason}")
    return task


def for_preference(tree: Any) -> Any:
    """The tree of a recipe, with the learning rate of preferences if it trains them and names none."""
    if not isinstance(tree, dict) or tree.get("task") != "preference":
        return tree
    training = tree.get("training") or {}
    if not isinstance(training, dict):
        return tree
    return {**tree, "training": {"learning_rate": _PREFERENCE_RATE, **training}}


def task_problems(recipe: "Recipe") -> Iterable[str]:
    """What makes no sense with the recipe's task."""
    if recipe.task == "preference":
        yield from _of_pairs(recipe.data)
        yield from _of_preference(recipe)
        return
    if any(part.rejected for part in recipe.data.parts):
        yield "data.rejected is of pairs of replies; it needs task: preference"
    if recipe.training.beta:
        yield "training.beta is of pairs of replies; it needs task: preference"


def _of_pairs(data: "Data") -> Iterable[str]:
    if not all(part.rejected for part in data.parts):
        yield "task preference needs data.rejected, the column with the reply to avoid"
    if data.text or data.image:
        yield "task preference takes conversations of text; data.text and data.image must be left out"
    if data.trained_replies != "all":
        yield "data.trained_replies does nothing with task preference, which compares the last replies"


def _of_preference(recipe: "Recipe") -> Iterable[str]:
    training = recipe.training
    if not recipe.lora:
        yield (
            "task preference needs lora: the model without its adapter is the reference, and all weights "
            "would need a second model in memory"
        )
    elif recipe.lora.dropout:
        yield "lora.dropout does nothing with task preference, where trl switches it off; leave it out"
    if training.packing:
        yield "training.packing must be false with task preference: pairs of replies are not packed"
    if training.sharding != "none":
        yield "training.sharding must be none with task preference: nobody has tried it with a reference"
    for name in sorted(PREFERENCE_REFUSED.keys() & training.trl):
        yield f"training.trl.{name} is refused: {PREFERENCE_REFUSED[name]}"
