"""The table of docs/training/methods.md: what a run can train, what it cannot, and why."""

from dataclasses import dataclass
from typing import Final

from docs_generator.parts import table
from workloads.finetune.settings.tasks import NOT_BUILT


@dataclass(frozen=True, kw_only=True)
class Built:
    """A method that a recipe has keys for.

    Args:
        keys: Dotted keys of a recipe.
    """

    name: str
    keys: tuple[str, ...]
    limits: str = ""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A method that is not built.

    Args:
        recipe: KEY=VALUE of a recipe that asks for it and is refused. Empty if a recipe has no word for it.
    """

    name: str
    why: str
    recipe: str = ""


BUILT: Final = (
    Built(name="fine-tuning of replies (SFT)", keys=("task", "data.reply", "data.messages")),
    Built(
        name="preferences (DPO), with trl's losses such as IPO, hinge, robust and APO",
        keys=("task", "data.rejected", "training.beta", "training.trl"),
        limits="an adapter, text, no shards",
    ),
    Built(name="plain texts (continued pre-training)", keys=("data.text",)),
    Built(name="LoRA, on every linear layer by default (all-linear)", keys=("lora.target_modules",)),
    Built(name="QLoRA", keys=("model.quantization",), limits="not with shards"),
    Built(name="rsLoRA", keys=("lora.use_rslora",)),
    Built(name="DoRA", keys=("lora.use_dora",), limits="not with shards. Served merged only"),
    Built(name="adapters on experts of a mixture", keys=("lora.target_parameters",), limits="no dropout"),
    Built(name="begin with a trained adapter", keys=("model.adapter", "model.adapter_revision")),
    Built(name="all weights, over many GPUs with FSDP2", keys=("training.sharding",)),
    Built(name="packing without attention between rows", keys=("training.packing",)),
    Built(name="tools, thoughts and pictures in rows", keys=("data.tools", "data.image")),
    Built(name="NEFTune, liger's kernels, label smoothing and other settings of trl", keys=("training.trl",)),
)
_OTHER_NAMES: Final = {
    "grpo": "GRPO and its relatives",
    "ppo": "PPO",
    "rloo": "RLOO",
    "online-dpo": "online DPO",
    "kto": "KTO",
    "orpo": "ORPO",
    "cpo": "CPO and SimPO",
    "reward": "reward models",
    "prm": "process reward models",
    "distillation": "distillation",
    "classification": "classifiers",
    "embedding": "embedding models",
}
MISSING: Final = (
    *(Missing(name=_OTHER_NAMES[task], why=why, recipe=f"task={task}") for task, why in NOT_BUILT.items()),
    Missing(
        name="preferences with all weights",
        why="the reference would be a second model in memory",
        recipe="task=preference",
    ),
    Missing(
        name="whole layers beside an adapter (`modules_to_save`), new tokens",
        why="vLLM loads no such adapter",
        recipe="lora.modules_to_save=[lm_head]",
    ),
    Missing(
        name="training for quantized weights (QAT)",
        why="nobody has asked for it. Published weights in mxfp4 and fp8 take an adapter",
        recipe="training.qat=true",
    ),
    Missing(
        name="DeepSpeed",
        why="FSDP2 divides the same weights, and is the one way here",
        recipe="training.trl.deepspeed=zero3.json",
    ),
    Missing(
        name="sequence, context and tensor parallelism",
        why="a sequence must fit on one GPU",
        recipe="training.trl.parallelism_config={}",
    ),
    Missing(
        name="8-bit and low-rank optimizers (bitsandbytes, GaLore), Muon",
        why="nobody has tried whether a run resumes with them bit by bit. All recipes use AdamW",
        recipe="training.optimizer=adamw_bnb_8bit",
    ),
    Missing(
        name="streamed data sets",
        why="a run counts its rows and keeps their order, so that it can resume",
    ),
)


def section() -> str:
    """Both tables."""
    built = [
        [method.name, ", ".join(f"`{key}`" for key in method.keys), method.limits or "-"] for method in BUILT
    ]
    missing = [[method.name, method.why] for method in MISSING]
    return (
        table("built", "keys of a recipe", "limits", rows=built)
        + "\n"
        + table("not built", "why", rows=missing)
    )
