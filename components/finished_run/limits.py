"""What vLLM takes of a model, by the model's config.json: tokens of a request, GPUs of a server, adapters."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

# The ranks that vLLM has kernels for. An adapter of another rank is served by the next larger one.
# https://docs.vllm.ai/en/stable/configuration/engine_args/
RANKS: Final = (8, 16, 32, 64, 128, 256, 320, 512)

# Architectures of the models that pass all of vLLM's tests of a release on v6e: Llama 3.1 8B and 3.3 70B,
# Qwen3 4B, 32B and 30B-A3B, Gemma 3 27B, Gemma 4 E2B and E4B, Qwen2.5-VL 7B (assumption vllm-tpu-models).
# https://github.com/vllm-project/tpu-inference, support_matrices/release/v6e/default, at b8692ff01
ON_TPU: Final = frozenset(
    {
        *(
            "LlamaForCausalLM",
            "Qwen3ForCausalLM",
            "Qwen3MoeForCausalLM",
            "Qwen2_5_VLForConditionalGeneration",
        ),
        *("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma4ForConditionalGeneration"),
    }
)

# A reason and a remedy.
Problem = tuple[str, str]

_PARTS: Final = ("text_config", "llm_config", "language_config")
# The smallest counts. https://docs.vllm.ai/en/stable/api/vllm/transformers_utils/
_POSITIONS: Final = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
# Kinds of a rope whose positions count its factor already, or which have none.
_COUNTED: Final = ("default", "su", "longrope", "llama3", "mrope")
# A number as vLLM reads it: 16384, 16k is 16,000, and 16K is 16,384.
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmM]?)")
_UNITS: Final = {"": 1, "k": 1000, "K": 1 << 10, "m": 1_000_000, "M": 1 << 20}
_GPUS: Final = (1, 2, 4, 8)
_WITHOUT_ADAPTER: Final = "merge it with `python -m finetune merge`, or train with `training.result: model`"


def positions_of(config: Mapping[str, Any]) -> int | None:
    """Tokens of a request with its answer that a model has positions for. None if its file does not say."""
    text = _text_part(config)
    known = [int(text[key]) for key in _POSITIONS if text.get(key)]
    if own := text.get("model_max_length"):
        return max(int(own), *known) if known else int(own)
    if not known:
        return None
    positions, factor = min(known), 1.0
    for rope in _ropes(text):
        kind = rope.get("rope_type") or rope.get("type") or "default"
        if kind not in _COUNTED and "gemma3" not in str(text.get("model_type")):
            factor = float(rope.get("factor") or 1)
            if kind == "yarn":
                positions = int(rope.get("original_max_position_embeddings") or positions)
    return int(positions * factor)


def problems_of_model(
    what: str, config: Mapping[str, Any], gpus: int, length: int, *, on_tpu: bool = False
) -> Iterator[Problem]:
    """Why vLLM would not start with a model.

    Args:
        what: Names the model in a sentence.
        gpus: Number of GPUs or TPU chips of a server.
        length: The server's `--max-model-len`, 0 if it follows the model.
        on_tpu: Whether they are TPU chips.
    """
    unit, setting = ("TPU chips", "machine") if on_tpu else ("GPUs", "gpus")
    positions = positions_of(config)
    if positions and length > positions:
        reason = f"{what} has {positions} positions, and --max-model-len of its servers is {length}"
        yield reason, f"write --max-model-len={positions} or less into vllmArguments"
    if not _divide(config, gpus):
        fitting = [str(count) for count in _GPUS if _divide(config, count)]
        heads = _heads(config)
        reason = (
            f"{what} has {heads[0]} attention heads and {heads[1]} of keys, which {gpus} {unit} do not divide"
        )
        yield reason, f"serve it on {' or '.join(fitting)} {unit}: set {setting} of a stack `serve`"


def untested_on_tpu(config: Mapping[str, Any]) -> str:
    """The architecture of a model that vLLM's own tests on v6e do not pass. Empty for one that they pass."""
    named = [str(name) for name in config.get("architectures") or ("without an architecture",)]
    return "" if ON_TPU.intersection(named) else named[0]


def length_in(arguments: Sequence[str]) -> int:
    """The last `--max-model-len` of a command. 0 without one, or if a configuration of the user's decides."""
    options = [word for argument in arguments for word in argument.split("=", 1)]
    values = {option.replace("_", "-"): value for option, value in pairwise(options)}
    if any(option.startswith("--hf-overrides") for option in values):
        return 0
    number = _LENGTH.fullmatch(values.get("--max-model-len", ""))
    return int(float(number[1]) * _UNITS[number[2]]) if number else 0


def problems_of_adapter(what: str, config: Mapping[str, Any], rank: int) -> Iterator[Problem]:
    """Why vLLM would not load an adapter.

    Args:
        what: Names the adapter in a sentence.
        config: Its adapter_config.json.
        rank: Its rank by the recipe.
    """
    rank = max(rank, int(config.get("r") or 0), *map(int, (config.get("rank_pattern") or {}).values()))
    if rank > RANKS[-1]:
        yield f"{what} has rank {rank}, and vLLM serves ranks up to {RANKS[-1]}", _WITHOUT_ADAPTER
    if modules := config.get("modules_to_save"):
        yield f"{what} has whole layers ({', '.join(modules)}), which vLLM does not load", _WITHOUT_ADAPTER
    if config.get("use_dora"):
        yield f"{what} is a DoRA adapter, which vLLM does not load", _WITHOUT_ADAPTER
    if config.get("bias", "none") != "none":
        yield f"{what} has biases, which vLLM does not load", _WITHOUT_ADAPTER


def kernel_rank(rank: int) -> int:
    """The rank of vLLM's kernels that serve an adapter of a rank."""
    return next((size for size in RANKS if size >= rank), rank)


def adapter_gb(config: Mapping[str, Any], rank: int) -> float:
    """GB of a server's memory for one adapter: in 16 bits, on all seven linear layers of each block.

    vLLM keeps these places also for layers that an adapter leaves out. Experts are not counted, and a model
    whose file does not name its sizes counts as nothing.

    Args:
        config: The base model's config.json.
        rank: Rank of the adapter.
    """
    text = _text_part(config)
    hidden, inner = int(text.get("hidden_size") or 0), int(text.get("intermediate_size") or 0)
    heads, of_keys = _heads(config)
    width = int(text.get("head_dim") or (hidden // heads if heads else 0))
    queries, keys = hidden + heads * width, hidden + of_keys * width
    attention, mlp = 2 * queries + 2 * keys, 3 * (hidden + inner)
    blocks = int(text.get("num_hidden_layers") or 0)
    return 2 * blocks * (attention + mlp) * kernel_rank(rank) / 1e9


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    parts = (config[key] for key in _PARTS if isinstance(config.get(key), Mapping))
    return next(parts, config)


def _ropes(text: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The settings of the rope, in the newer form by the kind of layer."""
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    nested = [part for part in rope.values() if isinstance(part, Mapping)]
    return nested or [rope]


def _heads(config: Mapping[str, Any]) -> tuple[int, int]:
    """Heads of queries, and of keys and values. 0 if the file does not say."""
    text = _text_part(config)
    heads = int(text.get("num_attention_heads") or text.get("n_head") or 0)
    return heads, int(text.get("num_key_value_heads") or heads)


def _divide(config: Mapping[str, Any], gpus: int) -> bool:
    """Whether each GPU gets as many heads. A head of keys may be on several GPUs."""
    heads, of_keys = _heads(config)
    return heads % gpus == 0 and (not of_keys or of_keys % gpus == 0 or gpus % of_keys == 0)
