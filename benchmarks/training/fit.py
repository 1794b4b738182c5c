"""Computes the memory of a GPU that a training step takes, with the real model but without its weights.

    python -m benchmarks.training.fit

The trainer that the package builds takes a step on fake tensors, which have a shape and no content, and
torch's memory tracker counts them. For several processes there is one with a process group that sends
nothing. The figures are written beside the recipes. Nothing here was measured on a GPU.
"""

import json
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final, cast
from unittest.mock import patch

HERE: Final = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "workloads"))
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch  # noqa: E402
import trl.kernels.chunked_logprob as loss_kernels  # noqa: E402
from accelerate import DistributedType, PartialState  # noqa: E402
from accelerate.state import AcceleratorState  # noqa: E402
from datasets import Dataset  # noqa: E402
from PIL import Image  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from transformers import (  # noqa: E402
    AutoModelForCausalLM,
    Gemma3ImageProcessor,
    Gemma3Processor,
)
from transformers.trainer_utils import IntervalStrategy, SaveStrategy  # noqa: E402

from benchmarks.training.memory_tracker import Watch  # noqa: E402
from benchmarks.training.published import config_of  # noqa: E402
from finetune.model.attention import PACKED_ROWS  # noqa: E402
from finetune.model.families import text_attention  # noqa: E402
from finetune.rows.tokens import NOT_TRAINED  # noqa: E402
from finetune.run.training import assemble, sft_arguments  # noqa: E402
from finetune.settings.recipe import FIT, Recipe, load_recipe  # noqa: E402
from rehearsal.running_pods import tiny  # noqa: E402


@dataclass(frozen=True)
class Row:
    """Numbers of tokens of a row: in the prefix of all rows, in the rest of its prompt, in its reply."""

    prefix: int
    prompt: int
    reply: int


@dataclass(frozen=True)
class Case:
    """A shipped recipe, a row like its rows, and the points: numbers of processes and lengths of packs.

    If nothing is sharded, one process takes as much memory as each of several. Settings are values that
    replace the recipe's, as KEY=VALUE.
    """

    recipe: str
    row: Row
    points: tuple[tuple[int, int | None], ...]
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The recipe and its other values, separated by spaces."""
        return " ".join((self.recipe, *self.settings))


# Rows are as long as the recipes' comments say, which is an estimate. No setting limits rows with pictures:
# they have a picture, and a reply as long as an answer may be.
CASES: Final = (
    Case("gemma-3-1b-emoji", Row(10, 25, 10), ((1, 1024), (1, 2048), (1, 4096))),
    Case("gemma-3-4b-sql", Row(20, 50, 30), ((1, 1024), (1, 2048))),
    Case("gemma-3-4b-vision", Row(0, 100, 256), ((1, None),)),
    Case("gemma-3-12b-text-to-sql", Row(80, 100, 40), ((1, 2048), (1, 4096))),
    # The same with shards, for the comparison.
    Case(
        "gemma-3-12b-text-to-sql",
        Row(80, 100, 40),
        ((8, 2048), (4, 2048), (8, 4096)),
        ("training.sharding=fsdp2",),
    ),
    Case("gemma-3-12b-pt-text-to-sql", Row(80, 100, 40), ((1, 2048), (1, 4096))),
    # Its rows share no sequence: as long as they may be.
    Case("gemma-2-2b-sql", Row(0, 482, 30), ((1, 512),)),
    Case("gemma-4-e2b-emoji", Row(10, 25, 10), ((1, 1024), (1, 2048))),
    Case("gemma-4-31b-text-to-sql", Row(80, 100, 40), ((8, 2048),)),
    Case("gemma-3-12b-text-to-sql-full", Row(80, 100, 40), ((8, 2048), (4, 2048))),
)


@dataclass(frozen=True)
class Step:
    """Bytes of a process: what it has at the peak of a step, by part, and what it sends to others.

    Without shards it sends up to twice the gradients, which is what one of many processes sends.
    """

    parts: dict[str, int]
    sent: int


def measure(recipe: Recipe, config: Any, row: Row, processes: int) -> Step:
    """A step of one of so many processes."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with tempfile.TemporaryDirectory() as workspace, ExitStack() as stack:
        sharded = recipe.training.sharding == "fsdp2" and processes > 1
        if sharded:
            stack.enter_context(_one_of(processes))
        watch = Watch(mode, sharded, processes)
        trainer = trainer_of(recipe, config, row, Path(workspace), mode, watch)
        with kernels_in_place():
            trainer.train()
    parts, sent = dict(watch.peak), watch.wires.sent
    if recipe.model.quantization == "nf4":
        parts["weights"] += _nf4_beyond_16_bits(trainer.model)
    if not sharded and (recipe.lora or processes > 1):
        # The buckets in which DDP averages the gradients of several processes.
        parts["gradients"] += parts["adapter"]
        sent = 2 * parts["adapter"]
    if not recipe.lora:
        parts["weights"] += parts["adapter"]
        parts["adapter"] = 0
    return Step(parts, sent)


@contextmanager
def _one_of(processes: int) -> Generator[None]:
    """Make this the first of so many processes. Nothing is sent to the others."""
    environment = dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE"), str(processes))
    environment |= {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    with patch.dict(os.environ, environment):
        torch.distributed.init_process_group("fake", rank=0, world_size=processes, store=FakeStore())
        try:
            yield
        finally:
            torch.distributed.destroy_process_group()
            AcceleratorState._reset_state(reset_partial_state=True)


def trainer_of(
    recipe: Recipe, config: Any, row: Row, workspace: Path, mode: FakeTensorMode | None, watch: "Watch"
) -> Any:
    """The package's trainer for one step, with fake weights, or with random ones if there is no mode."""
    pictures, training = recipe.data.image is not None, recipe.training
    processor = _processor(config) if pictures else tiny.make_tokenizer()
    rows = training.batch * training.accumulation_steps
    if training.packing:
        rows *= (cast(int, training.max_length) - row.prefix) // (row.prompt + row.reply)
    arguments = sft_arguments(recipe, workspace)
    if arguments.fsdp:
        # accelerate shards only on GPUs, where processes receive their weights. Here there are none.
        cpu = arguments.__dict__["_setup_devices"] = torch.device("cpu")
        PartialState._shared_state |= {"distributed_type": DistributedType.MULTI_GPU, "device": cpu}
        arguments.fsdp_plugin_args["cpu_ram_efficient_loading"] = False
    # A third batch of a step takes as much memory as the second.
    arguments.gradient_accumulation_steps = min(2, training.accumulation_steps)
    arguments.max_steps, arguments.dataloader_num_workers = 1, 0
    arguments.save_strategy = SaveStrategy.NO
    arguments.eval_strategy = arguments.logging_strategy = IntervalStrategy.NO
    with mode or nullcontext():
        model = AutoModelForCausalLM.from_config(
            config,
            dtype=torch.bfloat16 if recipe.lora and recipe.model.precision == "bf16" else torch.float32,
            attn_implementation=text_attention(config, PACKED_ROWS) if training.packing else None,
        )
    # The trainer does not move a model with this map, and fake weights cannot be moved.
    model.hf_device_map = {"": "cpu"}
    data = _pictured(recipe, row, rows, config) if pictures else _tokens(row, rows)
    trainer = assemble(recipe, arguments, model, processor, [5] * row.prefix, data, None, [watch])
    trainer.accelerator.device_placement = mode is None
    return trainer


def _tokens(row: Row, rows: int) -> Dataset:
    """Rows without their prefix."""
    tokens = {
        "input_ids": [5] * (row.prompt + row.reply),
        "labels": [NOT_TRAINED] * row.prompt + [5] * row.reply,
    }
    return Dataset.from_list([tokens] * rows)


def _pictured(recipe: Recipe, row: Row, rows: int, config: Any) -> Dataset:
    """Rows with a picture. In the tests' vocabulary the word is one token."""
    side = config.vision_config.image_size
    data = recipe.data.model_copy(update={"prompt": "red " * row.prompt, "system": None, "fields": {}})
    picture = Image.new("RGB", (side, side))
    turns = data.conversation({str(data.image): picture, data.reply: "red " * row.reply}).turns

    def conversations(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        columns = {"prompt": turns[:-1], "completion": turns[-1:], "images": [picture]}
        return {name: [value] * len(batch["at"]) for name, value in columns.items()}

    return Dataset.from_dict({"at": [*range(rows)]}).with_transform(conversations)


def _processor(config: Any) -> Gemma3Processor:
    """The processor for pictures of the model's size, with the tests' small vocabulary."""
    side = config.vision_config.image_size
    return Gemma3Processor(
        image_processor=Gemma3ImageProcessor(size={"height": side, "width": side}),
        tokenizer=tiny.make_tokenizer(),
        chat_template=tiny.CHAT_TEMPLATE,
        image_seq_length=config.mm_tokens_per_image,
    )


@contextmanager
def kernels_in_place() -> Generator[None]:
    """Replace kernels of the loss, which write in place on a GPU but copy the logits on a CPU."""
    with ExitStack() as stack:
        for kernel in ("_forward_tile", "_backward_tile", "_addmm_fp32"):
            stack.enter_context(patch.object(loss_kernels, kernel, lambda *_, **__: None))
        yield


def _nf4_beyond_16_bits(model: nn.Module) -> int:
    """How many bytes more the frozen layers take in 4 bits than in 16. It is less than 0.

    bitsandbytes cannot make fake weights. This counts its 4-bit form of each layer, and once the largest
    layer in 16 bits, since a layer is converted to 16 bits when it is used.
    """
    weights = [
        module.weight
        for name, module in model.named_modules()
        if type(module) is nn.Linear and "lora_" not in name and not name.endswith("lm_head")
    ]
    converted = max(weight.nbytes for weight in weights)
    return converted + sum(nf4_bytes(weight.numel()) - weight.nbytes for weight in weights)


def nf4_bytes(weights: int) -> int:
    """The bytes of so many weights in bitsandbytes' NF4 with double quantization."""
    blocks = ceil(weights / 64)
    tables = 16 * 4 + 256 * 4 + 4
    return ceil(weights / 2) + blocks + ceil(blocks / 256) * 4 + tables


def point_of(name: str, recipe: Recipe, config: Any, row: Row, processes: int) -> dict[str, Any]:
    """The figures of one of so many processes, which are printed too."""
    step = measure(recipe, config, row, processes)
    parts = step.parts
    gigabytes = ", ".join(f"{part} {size / 1e9:.2f}" for part, size in parts.items())
    max_length = recipe.training.max_length
    length = f"{max_length} tokens" if max_length else f"rows of {row.prefix + row.prompt + row.reply} tokens"
    print(
        f"{name}, {processes} processes, {length}: "
        f"{sum(parts.values()) / 1e9:.2f} GB computed, not measured ({gigabytes}), "
        f"sends {step.sent / 1e9:.2f} GB",
        flush=True,
    )
    return {"processes": processes, "max_length": max_length, "bytes": parts, "sent": step.sent}


def main() -> None:
    """Print the figures of the shipped recipes, and write them to a file that git tracks."""
    figures = {}
    for case in CASES:
        points = []
        for processes, max_length in case.points:
            length = [f"training.max_length={max_length}"] if max_length else []
            recipe = load_recipe(case.recipe, [*case.settings, *length])
            points.append(point_of(case.name, recipe, config_of(recipe.model.name), case.row, processes))
        digest = load_recipe(case.recipe, case.settings).memory_digest
        figures[case.name] = {"digest": digest, "points": points}
    FIT.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
