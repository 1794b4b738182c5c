"""What transformers can do with a model, by its configuration: the class that loads it, and its attention."""

from typing import Any

# The kinds of layers with which rows can share a pack. Other kinds carry a state from one token to the next,
# or divide a pack into chunks of their own.
PACKABLE_LAYERS = {"full_attention", "sliding_attention"}


def takes_pictures(config: Any) -> bool:
    """Whether the published model has a part for pictures."""
    from transformers import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING

    return type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING


def auto_class(config: Any) -> Any:
    """The class of transformers that loads the published model whole, with its part for pictures.

    The class of its text part alone gives weights other names, and some classes drop the rest. An adapter or
    a merged model would then not load on the published one.
    """
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if takes_pictures(config) else AutoModelForCausalLM


def text_attention(config: Any, name: str) -> dict[str, str]:
    """transformers' setting of an attention for the text alone, by the names of the model's parts.

    The parts for pictures and sound keep theirs. Gemma 4's part for sound takes no other than its own.
    """
    text = config.get_text_config()
    return {"": name} | {part: name for part in config.sub_configs if getattr(config, part) is text}


def why_not_packed(config: Any) -> str | None:
    """Why rows of the model cannot share a pack, or None if they can."""
    model, text = _model_class(config), config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ()) - PACKABLE_LAYERS
    if kinds or model._is_stateful:
        names = ", ".join(sorted(kinds)) or "recurrent"
        return f"{model.__name__} has layers that are no attention within a row ({names})"
    if getattr(text, "attn_logit_softcapping", None):
        return f"{model.__name__} caps the scores of its attention"
    if not (model._supports_sdpa and model._supports_attention_backend):
        return f"{model.__name__} needs an attention of its own"
    return None


def _model_class(config: Any) -> Any:
    """The class of the model. Raises ValueError where transformers has none for language models."""
    mapping = auto_class(config)._model_mapping
    if type(config) not in mapping:
        raise ValueError(f"transformers has no language model for {type(config).__name__}")
    classes = mapping[type(config)]
    if not isinstance(classes, list | tuple):
        return classes
    by_name = {model.__name__: model for model in classes}
    return next((by_name[name] for name in config.architectures or () if name in by_name), classes[0])
