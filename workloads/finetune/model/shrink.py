"""The configuration of a small model of the same architecture: every kind of layer once, and narrow.

The values that decide how a run ends stay as they were published. Among them are the size of a head, the
vocabulary, positions and windows. Layers share keys, experts are chosen and weights are tied as before.
"""

import copy
from collections.abc import Callable, Hashable
from itertools import pairwise
from math import ceil
from typing import Any

# Names of the same size in different configurations. The first that a part has is meant.
WIDTH = ("hidden_size", "d_model", "n_embd", "embed_dim")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "depth")
KINDS = ("layers_block_type", "layer_types")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_HEADS = ("num_key_value_heads", "num_global_key_value_heads")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "top_k_experts", "num_experts_per_token", "moe_k")
# Sizes that must equal the whole width.
AS_WIDE = ("block_dim", "conv_dim", "conv_dim_out", "lru_width")
# Parts of the names of lists of layers.
PLACES = ("layers", "indices", "indexes", "idxs")
# Configurations that say of every so many layers what they are, in place of a list.
PERIODS = ("attn_layer_period", "expert_layer_period", "decoder_sparse_step", "interleave_moe_layer_step")
INNER, NARROW, RANK, PER_LAYER, STEP_RANK = 64, 64, 16, 4, 4
# A part that is no wider than this is small already.
SMALL = 256
# With transformers' 0.02 and these widths a wrong merge would hardly show.
SPREAD = 0.1

Tree = dict[str, Any]


def forms(config: Any) -> dict[str, Tree]:
    """Trees of config.json of small models, the smallest first. Not every architecture takes every form."""
    return {
        "narrow": _each_part(config, lambda part: _narrow(part, apart=True)),
        "as wide as its heads": _each_part(config, lambda part: _narrow(part, apart=False)),
        "as wide as published": _each_part(config, _cut),
    }


def layers(config: Any) -> int:
    """The number of layers of the language model."""
    return _count(config.get_text_config().to_dict()) or 0


def _each_part(config: Any, change: Callable[[Tree], None]) -> Tree:
    tree = _plain(config)
    parts = [tree, *(part for part in tree.values() if isinstance(part, dict) and _first(WIDTH, part))]
    for part in parts:
        name = _first(WIDTH, part)
        if name and isinstance(part[name], int) and part[name] > SMALL:
            change(part)
    text = tree.get("text_config", tree)
    for part in parts:
        if part is not text and "out_hidden_size" in part and (name := _first(WIDTH, text)):
            part["out_hidden_size"] = text[name]
    return tree


def _plain(config: Any) -> Tree:
    """The configuration's values over its defaults. Some configurations refuse to be asked for attributes."""
    tree = copy.deepcopy(config.to_dict())
    tree.pop("quantization_config", None)
    if isinstance(text := tree.get("text_config"), dict):
        text.pop("quantization_config", None)
    return tree


def _first(names: tuple[str, ...], part: Tree) -> str | None:
    return next((name for name in names if part.get(name) is not None), None)


def _count(part: Tree) -> int | None:
    """The number of a part's layers, by its own name or by the list of their kinds."""
    name = _first(LAYERS, part)
    if name:
        return part[name] if isinstance(part[name], int) else None
    return next((len(part[kinds]) for kinds in KINDS if isinstance(part.get(kinds), list)), None)


def _narrow(part: Tree, apart: bool) -> None:
    """Make a part narrow. `apart` if heads and width need not be multiples where a head's size is given."""
    _cut(part)
    width = _first(WIDTH, part) or ""
    part[width] = _heads(part, part[width], apart)
    for name, value in part.items():
        if not value or isinstance(value, bool):
            continue
        if _is_inner(name):
            part[name] = [INNER] * len(value) if isinstance(value, list) else INNER
        elif name in ("q_lora_rank", "kv_lora_rank"):
            part[name] = min(value, RANK)
        elif name in AS_WIDE:
            part[name] = part[width]
    if part.get("hidden_size_per_layer_input"):
        part["hidden_size_per_layer_input"] = PER_LAYER
    for own in (part.get("per_layer_config") or {}).values():
        own |= {name: 1 for name in KEY_HEADS if name in own}
        own |= {name: 2 * INNER for name in own if _is_inner(name)}
    _choose_experts(part)
    _states(part, part[width])
    for name in ("initializer_range", "init_std"):
        if name in part:
            part[name] = SPREAD


def _is_inner(name: str) -> bool:
    return "intermediate_size" in name or name in ("ffn_dim", "n_inner", "ffn_hidden_size")


def _heads(part: Tree, width: int, apart: bool) -> int:
    """Two heads of the published size. Returns the new width, which follows from them if it did before."""
    name = _first(HEADS, part)
    if not name or not isinstance(part[name], int):
        return NARROW
    count = part[name]
    size = part.get("head_dim") or width // count
    part[name] = 2
    for key in KEY_HEADS:
        if isinstance(part.get(key), int):
            part[key] = 2 if key == KEY_HEADS[0] and part[key] >= count else 1
    follows = size * count == width and not (apart and part.get("head_dim"))
    return 2 * size if follows else NARROW


def _choose_experts(part: Tree) -> None:
    """Fewer experts. How many are chosen, and from how many groups, stays."""
    name, chosen = _first(EXPERTS, part), _first(CHOSEN, part)
    if not name or not isinstance(part[name], int):
        return
    groups = part.get("n_group") or 1
    wanted = max(8, 2 * (part[chosen] if chosen else 1), 2 * groups)
    part[name] = min(part[name], groups * ceil(wanted / groups))


def _states(part: Tree, width: int) -> None:
    """Fewer heads of linear attention and of Mamba, whose heads are as wide as the model makes them."""
    if "linear_num_key_heads" in part:
        part |= {"linear_num_key_heads": 1, "linear_num_value_heads": 2}
    expand = part.get("mamba_expand") or part.get("expand") or 2
    inner = expand * width
    if part.get("mamba_d_ssm"):
        part["mamba_d_ssm"] = inner = 2 * INNER
    if part.get("model_type") in ("mamba", "falcon_mamba"):
        part |= {"intermediate_size": inner, "time_step_rank": STEP_RANK}
    if part.get("model_type") == "mamba2":
        part |= {"num_heads": 2, "head_dim": inner // 2, "n_groups": 1}
    for count, size, groups in (
        ("mamba_n_heads", "mamba_d_head", "mamba_n_groups"),
        ("mamba_num_heads", "mamba_head_dim", "n_groups"),
        ("n_mamba_heads", "mamba_headdim", "mamba_ngroups"),
    ):
        if count in part:
            part |= {count: 2, size: inner // 2, groups: 1}
    if "mamba_dt_rank" in part:
        part["mamba_dt_rank"] = STEP_RANK


def _cut(part: Tree) -> None:
    """Keep the first layer of every kind, and the last one."""
    count = _count(part)
    if count is None or count <= 2:
        return
    kept = _kept(part, count)
    for key, value in part.items():
        if _holds_places(key, value, count):
            part[key] = [kept.index(at) for at in value if at in kept]
        elif _is_by_layer(key, value, count):
            part[key] = [value[at] for at in kept]
    shared = part.get("num_kv_shared_layers") or 0
    if shared:
        part["num_kv_shared_layers"] = sum(at >= count - shared for at in kept)
    if part.get("first_k_dense_replace"):
        part["first_k_dense_replace"] = sum(at < part["first_k_dense_replace"] for at in kept)
    own = part.get("per_layer_config")
    if isinstance(own, dict):
        # Its keys are numbers of two digits.
        values = {int(at): value for at, value in own.items()}
        part["per_layer_config"] = {f"{new:02d}": values[at] for new, at in enumerate(kept) if at in values}
    if name := _first(LAYERS, part):
        part[name] = len(kept)


def _kept(part: Tree, count: int) -> list[int]:
    """The places of the layers that stay."""
    periods = [part[name] for name in PERIODS if isinstance(part.get(name), int)]
    periods.append(len(part.get("block_types") or ()))
    if max(periods, default=1) > 1:
        return [*range(min(count, max(2, *periods)))]
    kinds = [_kind(part, at, count) for at in range(count)]
    if len({*kinds}) > count // 2:
        kinds = [_kind(part, at, count, texts_only=True) for at in range(count)]
    first = {kind: at for at, kind in reversed([*enumerate(kinds)])}
    # The last layer stands for its kind: some models want a certain one there.
    first[kinds[-1]] = count - 1
    kept = sorted(first.values())
    return kept if len(kept) > 1 else [0, *kept]


def _kind(part: Tree, at: int, count: int, texts_only: bool = False) -> tuple[Hashable, ...]:
    """What tells a layer from others, by everything that the configuration says of it."""
    lists = [
        value[at]
        for key, value in sorted(part.items())
        if _is_by_layer(key, value, count) and isinstance(value[at], Hashable)
    ]
    if texts_only:
        lists = [value for value in lists if isinstance(value, str)]
    members = [at in value for key, value in sorted(part.items()) if _holds_places(key, value, count)]
    shares_keys = at >= count - (part.get("num_kv_shared_layers") or 0)
    is_dense = at < (part.get("first_k_dense_replace") or 0)
    return (*map(str, lists), *members, shares_keys, is_dense)


def _is_by_layer(key: str, value: Any, count: int) -> bool:
    """Whether a list has a value for each layer."""
    return isinstance(value, list) and len(value) == count and not _holds_places(key, value, count)


def _holds_places(key: str, value: Any, count: int) -> bool:
    """Whether a list names layers by their places."""
    if not isinstance(value, list) or not value or not any(part in key for part in PLACES):
        return False
    if not all(isinstance(at, int) and 0 <= at < count for at in value):
        return False
    return all(before < after for before, after in pairwise(value))
