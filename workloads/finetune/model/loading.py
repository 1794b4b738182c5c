"""The base model and its adapter: access, download, 4-bit loading, LoRA, a check of the saved adapter."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conversations.stops import check_ends, tell_stops
from finetune.model.descriptions import check_descriptions, check_template, tokenizer_problem
from finetune.model.families import auto_class, model_class, takes_pictures, text_attention
from finetune.model.first_adapter import with_first_adapter
from finetune.model.kernels import check_kernels
from finetune.model.plain import read_config
from finetune.model.quantized import plain_weights, quantized_problems
from finetune.settings.recipe import Recipe
from finetune.settings.sections import Model
from finetune.settings.templates import TemplateName, template_text
from finetune.settings.trl_fields import UNPACKED
from shared.errors import InputError, PassingError, one_line
from shared.model_files import FROM_DISK, UNWANTED, WANTED

if TYPE_CHECKING:
    import torch

# What transformers raises for files that it cannot make a model of.
LOADING_ERRORS = (ValueError, KeyError, AttributeError, ImportError, OSError, AssertionError, TypeError)


def check_model(model: Model) -> Path:
    """Download the model's configuration. Raises InputError when it is absent or gated."""
    import huggingface_hub

    from shared.hub import read

    if model.on_hub:
        return Path(
            read(
                model,
                lambda: huggingface_hub.hf_hub_download(model.name, "config.json", revision=model.revision),
            )
        )
    config = Path(model.name, "config.json")
    if not config.is_file():
        raise InputError(f"model {model.name} is not a directory with a config.json")
    return config


def fetch_model(model: Model, patterns: Sequence[str] = WANTED) -> Path:
    """The directory with the model's files: its own, or a download in the cache (HF_HOME)."""
    if not model.on_hub:
        return Path(model.name)
    import huggingface_hub

    from shared.hub import read

    return Path(
        read(
            model,
            lambda: huggingface_hub.snapshot_download(
                model.name,
                revision=model.revision,
                allow_patterns=[*patterns],
                ignore_patterns=[*UNWANTED],
            ),
        )
    )


def config_in_cache(model: Model) -> Any:
    """The model's configuration, cached or in its directory. Raises InputError if it needs its own code."""
    check_descriptions(model.name, model.revision)
    try:
        return read_config(model.name, model.revision)
    except LOADING_ERRORS as error:
        raise _not_loaded(model, error, "by its config.json") from error


def empty_model(model: Model) -> Any:
    """The base model with shapes and no weights, by its configuration in the cache or in its directory.

    Raises InputError when transformers has no class for it, or has one only with the repository's own code.
    """
    import torch

    config = config_in_cache(model)
    try:
        with torch.device("meta"):
            return auto_class(config).from_config(config, trust_remote_code=False)
    except LOADING_ERRORS as error:
        raise _not_loaded(model, error) from error


def _not_loaded(model: Model, error: Exception, by: str = "") -> InputError:
    where = f" {by}" if by else ""
    return InputError(f"model {model.name} cannot be loaded as a language model{where}: {one_line(error)}")


def as_model_allows(recipe: Recipe) -> Recipe:
    """The recipe, which packs only if the model's rows can share a pack. One line says if they cannot.

    With an adapter with which the run begins, its section lora is that adapter's.

    Raises InputError when the recipe has pictures and the model takes none. The same when weights as they are
    published give no such result, and when the model does not write text.
    """
    check_model(recipe.model)
    recipe = with_first_adapter(recipe)
    config = config_in_cache(recipe.model)
    if recipe.data.image and not takes_pictures(config):
        raise InputError(f"model {recipe.model.name} takes no pictures, and data.image names some")
    if problems := [*quantized_problems(recipe, config)]:
        raise InputError("; ".join(problems))
    try:
        model_class(config)
    except ValueError as error:
        raise _not_loaded(recipe.model, error) from error
    check_kernels(recipe, config)
    reason, packs = _why_not_packed(recipe, config), recipe.training.packing
    if packs is None:
        packs = (
            recipe.task != "preference"
            and not recipe.data.image
            and not recipe.training.trl.keys() & UNPACKED
        )
    if packs and reason:
        packs = False
        print(
            "packing and the shared prefix are off, as with training.packing: false, and batch_size counts "
            f"rows: {reason}",
            flush=True,
        )
    training = recipe.training.model_copy(update={"packing": packs})
    return recipe.model_copy(update={"training": training})


def _why_not_packed(recipe: Recipe, config: Any) -> str | None:
    """Why rows of the model cannot share a pack, or None if they can.

    Raises InputError when a token of the model sees those behind it.
    """
    from finetune.model.small_copy import see
    from finetune.model.small_model import NoSmallModel

    try:
        sight = see(config)
    except NoSmallModel as error:
        return f"no small copy of the model works, which would tell whether rows can share a pack ({error})"
    if not sight.is_causal:
        raise InputError(
            f"model {recipe.model.name} cannot be trained to write: a token of {sight.model} sees those "
            "behind it; take a model that writes text"
        )
    return sight.not_packed


def compute_dtype(model: Model) -> "torch.dtype":
    """The number format of the model's forward pass."""
    import torch

    return {"bf16": torch.bfloat16, "fp32": torch.float32}[model.precision]


def load_model(model: Model, device: "torch.device", packed: bool = False, trained: bool = False) -> Any:
    """Load the base model from disk onto `device`.

    `packed` if every batch is a pack of rows. `trained` if its weights are trained: they are then in fp32.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import BitsAndBytesConfig

    from finetune.model.attention import PACKED_ROWS

    config = config_in_cache(model)
    dtype = compute_dtype(model)
    options: dict[str, Any] = {
        "dtype": torch.float32 if trained else dtype,
        # By default transformers takes the fused attention where a part of the model supports it.
        "attn_implementation": text_attention(config, PACKED_ROWS) if packed else None,
        "revision": model.revision,
        **FROM_DISK,
        **plain_weights(config),
    }
    if model.quantization == "nf4":
        options["device_map"] = {"": device}
        options["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    # A model that takes pictures is loaded whole, also for rows of text. The adapter of a text-only class
    # would have other names, and would not load on the published model.
    try:
        loaded = auto_class(config).from_pretrained(model.name, config=config, **options)
    except (*LOADING_ERRORS, SafetensorError) as error:
        raise _not_loaded(model, error) from error
    if plain_weights(config):
        # transformers would write the weights under the names of their quantized parts.
        loaded._weight_conversions = None
    return without_router_scores(loaded)


def without_router_scores(model: Any) -> Any:
    """The model, which gives no scores of a mixture's routers unless it is asked for them.

    It would add the loss that balances experts to its own, which fails while it generates.
    """
    config = model.config.get_text_config()
    if hasattr(config, "output_router_logits"):
        config.output_router_logits = False
    return model


def load_adapted(model: Model, adapter: Path, device: "torch.device") -> Any:
    """The base model on `device` with a trained adapter from disk."""
    return with_adapter(load_model(model, device).to(device), adapter)


def with_adapter(base: Any, adapter: Path) -> Any:
    """The base model with an adapter from disk. Raises InputError for files that are none of this model."""
    from peft import PeftModel
    from safetensors import SafetensorError

    check_descriptions(adapter)
    try:
        return PeftModel.from_pretrained(base, str(adapter))
    except (*LOADING_ERRORS, RuntimeError, SafetensorError) as error:
        raise InputError(f"the adapter in {adapter} cannot be loaded: {one_line(error)}") from error


def load_processor(
    name: str, pictures: bool, revision: str | None = None, template: TemplateName | None = None
) -> Any:
    """The model's processor, or for rows of text its tokenizer, because trl packs only with a tokenizer.

    Args:
        template: A chat template in place of the model's own.
    """
    from transformers import AutoProcessor, AutoTokenizer

    check_descriptions(name, revision)
    if not template:
        check_template(name, revision)
    kind = AutoProcessor if pictures else AutoTokenizer
    try:
        processor: Any = kind.from_pretrained(name, revision=revision, **FROM_DISK)
        rows = vocabulary(read_config(name, revision))
    except LOADING_ERRORS as error:
        part = "processor of pictures" if pictures else "tokenizer"
        reason = tokenizer_problem(name, revision) or one_line(error)
        raise InputError(f"the {part} of model {name} cannot be loaded: {reason}") from error
    tokenizer: Any = getattr(processor, "tokenizer", processor)
    if template:
        processor.chat_template = tokenizer.chat_template = template_text(template)
    _set_padding(tokenizer, rows)
    tell_stops(tokenizer, name, revision)
    check_ends(processor)
    return processor


def vocabulary(config: Any) -> int:
    """How many tokens the model knows: the rows of its embedding."""
    return config.get_text_config().vocab_size


def _set_padding(tokenizer: Any, rows: int) -> None:
    """Give a tokenizer a padding token that the model has, as trl does. Nothing attends to padding.

    Llama 3 and Mistral are published without one, and some models with one behind their embedding.
    """
    padding = tokenizer.pad_token_id
    if padding is None or padding >= rows:
        known = sorted(token for token in tokenizer.added_tokens_decoder if token < rows)
        ends = [tokenizer.eos_token_id, tokenizer.bos_token_id, *known, 0]
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(
            next(token for token in ends if token is not None and token < rows)
        )


def verify_adapter(trained: "dict[str, torch.Tensor]", directory: Path) -> None:
    """Raises PassingError unless the saved adapter has the trained weights, all of them finite."""
    import torch
    from peft import load_peft_weights

    saved = load_peft_weights(str(directory), device="cpu")
    if trained.keys() != saved.keys():
        raise PassingError(f"the adapter in {directory} has other weights than the trained one")
    for name, weight in trained.items():
        if not torch.isfinite(weight).all() or not torch.equal(weight, saved[name].to(weight)):
            raise PassingError(
                f"the adapter in {directory} differs from the trained one, or is not finite, at {name}"
            )
