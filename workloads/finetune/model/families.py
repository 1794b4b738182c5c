"""What transformers can do with a model, by its configuration: the class that loads it, and how."""

from typing import Any


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


def language_part(model: Any) -> Any:
    """The part of a loaded model that reads and writes text. Some classes call their head the decoder."""
    decoder = model.get_decoder()
    return model.base_model if decoder is model.get_output_embeddings() else decoder


def model_class(config: Any) -> Any:
    """The class of the model. Raises ValueError where transformers has none for language models."""
    mapping = auto_class(config)._model_mapping
    if type(config) not in mapping:
        raise ValueError(f"transformers has no language model for {type(config).__name__}")
    classes = mapping[type(config)]
    if not isinstance(classes, list | tuple):
        return classes
    by_name = {model.__name__: model for model in classes}
    return next((by_name[name] for name in config.architectures or () if name in by_name), classes[0])
