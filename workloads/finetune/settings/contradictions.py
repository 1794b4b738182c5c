"""Settings of a recipe that are right one by one and make no sense together."""

import re
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finetune.settings.layers import adapter_problems
from finetune.settings.lora import Lora
from finetune.settings.tasks import task_problems
from finetune.settings.trl_fields import REFUSED, SET_BY_RUN
from shared.recipe_file import did_you_mean

if TYPE_CHECKING:
    from finetune.settings.recipe import Recipe
    from finetune.settings.sections import Data

_PLACEHOLDER = re.compile(r"[^\d.\[\]][^.\[\]]*")
# Defaults of a recipe without an adapter. An adapter starts from zero and needs a higher rate.
_ALL_WEIGHTS = {"result": "model", "learning_rate": 1e-5}
# How tokens of the Hub, GitHub, Google, OpenAI, Slack and Weights & Biases begin, and private keys.
_SECRET = re.compile(
    r"\b(hf_[A-Za-z0-9]{20}|gh[pousr]_[A-Za-z0-9]{20}|github_pat_|AIza[\w-]{30}|ya29\.|GOCSPX-|sk-[\w-]{20}"
    r"|xox[abpr]-|wandb_v\d_|AKIA[A-Z0-9]{16})|-----BEGIN [A-Z ]*PRIVATE KEY"
)
_NOT_WITH_MESSAGES = {"fields", "prompt", "reply", "system"}
_NOT_WITH_TEXT = _NOT_WITH_MESSAGES | {"image", "messages", "tools", "trained_replies"}


def with_fields(tree: Any) -> Any:
    """The tree of a data section in which every placeholder of the prompt names its column.

    Without fields, a placeholder is the column's own name.
    """
    if not isinstance(tree, dict) or tree.get("fields") or not isinstance(prompt := tree.get("prompt"), str):
        return tree
    try:
        names = _placeholders(prompt)
    except ValueError:
        return tree
    # Other placeholders, such as {row.title} or {0}, are no names of columns.
    if not all(_PLACEHOLDER.fullmatch(name) for name in names):
        return tree
    return {**tree, "fields": {name: name for name in sorted(names)}}


def for_all_weights(tree: Any) -> Any:
    """The tree of a recipe, with the defaults of one that trains all weights if it has no adapter.

    One that begins with an adapter has a section lora, which is filled from its configuration.
    """
    if not isinstance(tree, dict) or tree.get("lora") is not None:
        return tree
    if _begins_with_adapter(tree):
        return {**tree, "lora": {}}
    training = tree.get("training") or {}
    if not isinstance(training, dict):
        return tree
    return {**tree, "training": {**_ALL_WEIGHTS, **training}}


def given_twice(tree: Any) -> list[str]:
    """What a file of a recipe says and its adapter's own configuration too."""
    if not isinstance(tree, dict) or not _begins_with_adapter(tree):
        return []
    lora, defaults = tree.get("lora") or {}, Lora().model_dump()
    # A stack ships a recipe with the defaults of all keys.
    changed = [key for key, value in lora.items() if key in defaults and value != defaults[key]]
    return [
        f"lora.{key} is in the adapter's own configuration: leave it out with model.adapter"
        for key in changed
    ]


def _begins_with_adapter(tree: dict[str, Any]) -> bool:
    return isinstance(model := tree.get("model"), dict) and bool(model.get("adapter"))


def _placeholders(prompt: str) -> set[str]:
    """Raises ValueError when the prompt is no template."""
    return {name for _, name, _, _ in string.Formatter().parse(prompt) if name is not None}


def placeholder_problems(data: "Data") -> list[str]:
    """Placeholders of the prompt that no column fills, and columns that fill none."""
    try:
        used = _placeholders(data.prompt)
    except ValueError as error:
        return [f"data.prompt is not a valid template: {error} (write {{{{ and }}}} for braces)"]
    unnamed = [
        f"data.prompt uses {{{name}}}, which data.fields does not name{did_you_mean(name, data.fields)}; "
        f"write data.fields.{name}: COLUMN"
        for name in sorted(used - set(data.fields))
    ]
    return unnamed + [
        f"data.fields.{name} is not used in data.prompt" for name in sorted(set(data.fields) - used)
    ]


def contradictions(recipe: "Recipe") -> Iterable[str]:
    """Settings that contradict each other."""
    yield from _of_sources(recipe)
    yield from adapter_problems(recipe.lora, recipe.model.name) if recipe.lora else _of_all_weights(recipe)
    if recipe.data.text:
        yield from _of_texts(recipe)
    yield from _of_pictures_and_packs(recipe)
    yield from _of_training(recipe)
    yield from _of_evaluation(recipe)
    yield from task_problems(recipe)
    yield from _of_library(recipe)
    yield from _of_secrets(recipe)


def _of_sources(recipe: "Recipe") -> Iterable[str]:
    """Where data and model come from, and which columns are read."""
    model, data = recipe.model, recipe.data
    if data.sets:
        yield from _of_sets(data)
    elif bool(data.name) == bool(data.files):
        yield "data.name, a data set, or data.files must be given, not both"
    if data.config and data.files:
        yield "data.config is of a data set, and data.files have none"
    # With pairs, the messages may be those before the two replies.
    not_with_messages = _NOT_WITH_MESSAGES - ({"reply"} if data.rejected else set())
    if data.messages and data.model_dump(include=not_with_messages, exclude_defaults=True):
        left_out = ", ".join(sorted(not_with_messages))
        yield f"data.messages are whole conversations; {left_out} must be left out"
    if data.tools and not data.messages:
        yield "data.tools are of whole conversations; it needs data.messages"
    if not all(part.messages or part.text or (part.reply and part.prompt) for part in data.parts):
        yield "data.reply and data.prompt, or data.messages, or data.text, must be given"
    for section, source in (("model", model), ("data", data)):
        if source.revision and not source.on_hub:
            yield f"{section}.revision is of the Hub, and {section}.name no id of it"
    if model.adapter_revision and not (model.adapter_source and model.adapter_source.on_hub):
        yield "model.adapter_revision is of the Hub, and model.adapter no id of it"


def _of_sets(data: "Data") -> Iterable[str]:
    """Several data sets: where each is, and that its rows stay the same."""
    if data.name or data.files != [file for part in data.sets for file in part.files]:
        yield "data.sets stand in place of data.name and data.files; leave these out"
    for number, part in enumerate(data.sets):
        if bool(part.name) == bool(part.files):
            yield f"data.sets.{number} must have name, a data set, or files, not both"
        if part.name and not part.revision and not Path(part.name).is_dir():
            yield f"data.sets.{number}.revision must name the commit of {part.name}: a run keeps its rows"


def _of_texts(recipe: "Recipe") -> Iterable[str]:
    """Plain texts: they have no prompts, so nothing can be asked."""
    if recipe.data.model_dump(include=_NOT_WITH_TEXT, exclude_defaults=True):
        yield f"data.text are texts without prompts; {', '.join(sorted(_NOT_WITH_TEXT))} must be left out"
    if recipe.evaluation.rows:
        yield "evaluation.rows asks for answers, and data.text has no prompts; data.test_rows gives the loss"
    if recipe.model.chat_template:
        yield "model.chat_template writes conversations, and data.text has none"
    if (recipe.training.max_length or 0) < 2:
        yield "data.text needs training.max_length, the tokens of a chunk, 2 or more"


def _of_all_weights(recipe: "Recipe") -> Iterable[str]:
    """A recipe without an adapter."""
    if recipe.model.quantization != "none":
        yield "model.quantization must be none without lora: 4-bit weights cannot be trained"
    if recipe.training.result == "adapter":
        yield "training.result must be model without lora: there is no adapter"


def _of_pictures_and_packs(recipe: "Recipe") -> Iterable[str]:
    """The length of sequences: packs are of text alone."""
    has_pictures, training = bool(recipe.data.image), recipe.training
    if has_pictures and training.packing:
        yield "training.packing packs text; with data.image it must be false"
    if has_pictures and training.max_length is not None:
        yield "training.max_length counts tokens of text; with data.image it must be left out"


def _of_training(recipe: "Recipe") -> Iterable[str]:
    """Steps, saves, the best checkpoint, and where the result goes."""
    model, data, training = recipe.model, recipe.data, recipe.training
    if training.warmup_steps and training.schedule == "constant":
        yield "training.warmup_steps has no effect on schedule constant; take constant_with_warmup"
    if training.evaluate_every_steps is not None and not data.test_rows:
        yield "training.evaluate_every_steps needs data.test_rows to evaluate on"
    if training.load_best_model_at_end and (
        not training.evaluate_every_steps or training.evaluate_every_steps % training.save_every_steps
    ):
        yield "training.load_best_model_at_end needs training.evaluate_every_steps, a multiple of the saves'"
    if training.push_to_hub and not training.hub_model_id:
        yield "training.push_to_hub needs training.hub_model_id, OWNER/NAME"
    if training.early_stopping_patience and not training.load_best_model_at_end:
        yield "training.early_stopping_patience needs training.load_best_model_at_end"
    if training.sharding == "fsdp2" and model.quantization == "nf4":
        # https://github.com/huggingface/accelerate/pull/3987: 4-bit weights are left out of the sharding.
        yield "training.sharding fsdp2 cannot shard nf4 weights; model.quantization must be none"
    if training.sharding == "fsdp2" and recipe.lora and recipe.lora.use_dora:
        yield "lora.use_dora needs whole layers, and training.sharding fsdp2 divides them; leave one out"


def _of_evaluation(recipe: "Recipe") -> Iterable[str]:
    """The answers to held-out rows, and who judges them."""
    data, evaluation = recipe.data, recipe.evaluation
    if evaluation.judge == "sql" and "schema" not in data.fields:
        yield "evaluation.judge sql needs data.fields.schema, the column that creates a row's tables"
    if evaluation.good and not (data.test_rows and evaluation.rows):
        yield "evaluation.good needs evaluation.rows, and data.test_rows to answer"
    if "better_than_base" in evaluation.good and not evaluation.before:
        yield "evaluation.good.better_than_base needs evaluation.before"
    for figure in evaluation.good.keys() - {"better_than_base"}:
        if (figure == "execution_accuracy") != (evaluation.judge == "sql"):
            yield f"evaluation.good names {figure}, which judge {evaluation.judge} does not give"
    if (evaluation.every_steps or 0) % recipe.training.save_every_steps:
        yield "evaluation.every_steps must be a multiple of training.save_every_steps"


def _of_library(recipe: "Recipe") -> Iterable[str]:
    """Settings of trl that the run sets itself, or that are refused for another reason."""
    for name in recipe.training.trl:
        if name in SET_BY_RUN:
            field = SET_BY_RUN[name]
            yield f"training.trl.{name} is " + (f"{field} in a recipe" if field else "set by the run itself")
        elif name in REFUSED:
            yield f"training.trl.{name} is refused: {REFUSED[name]}"


def _of_secrets(recipe: "Recipe") -> Iterable[str]:
    """Values that look like a secret. A run records its recipe in plain text."""
    for key, value in _values("", recipe.model_dump()):
        if isinstance(value, str) and _SECRET.search(value):
            yield f"{key} looks like a secret, and a run records its recipe: take it out and revoke it"


def _values(key: str, value: Any) -> Iterable[tuple[str, Any]]:
    """Every plain value in a tree, with its dotted key."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, Mapping):
        yield key, value
        return
    for name, part in value.items():
        yield from _values(f"{key}.{name}".removeprefix("."), part)
