"""Changes a trainer so that it runs on a CPU. All differences from a run on the platform are here.

Python imports this module in every process of a pod, before anything else. Nothing in workloads/ knows of it.
"""

import fcntl
import importlib
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Arguments after those of the manifest, by the command. The shipped rate hardly moves a tiny model.
ARGUMENTS = {
    "torchrun": [
        "--processes=2",  # for eight: this machine has two cores
        "--set=data.test_rows=8",
        "--set=training.max_length=512",  # of the tiny models' texts, several a row
        "--set=training.batch_size=1",  # so that a step takes part of a second
        "--set=training.accumulation_steps=1",
        "--set=training.learning_rate=0.005",
        "--set=training.log_every_steps=1",  # for the losses to be compared
        "--set=training.save_every_steps=6",  # seldom: what a stop saves is then not what a period saved
        "--set=training.evaluate_every_steps=100",  # once, at the end
        "--set=evaluation.max_new_tokens=8",  # a tiny model seldom ends by itself
    ],
    "local": [
        "--set=data.rows=48",  # eight steps
        "--set=data.test_rows=8",
        "--set=training.max_length=200",  # of the tiny model's texts, several a row
        "--set=training.log_every_steps=1",
        "--set=training.save_every_steps=3",
        "--set=training.evaluate_every_steps=100",
        "--set=evaluation.max_new_tokens=8",
    ],
    "ray": [
        "--workers=2",  # for sixteen: one a node
        "--set=data.test_rows=4",
        "--set=evaluation.max_new_tokens=8",
        "--set=training.batch_size=1",  # 24 steps of two rows
        "--set=training.loader_processes=1",  # for four: this machine has two cores
        "--set=training.log_every_steps=1",  # for the losses to be compared
    ],
    "trial": [
        "--set=data.test_rows=4",
    ],
    "maxtext_driver": [
        "--set=override_model_config=true",
        "--set=base_emb_dim=16",  # 4 million weights, nearly all of them the tokenizer's
        "--set=base_num_query_heads=2",
        "--set=base_num_kv_heads=2",
        "--set=base_mlp_dim=64",
        "--set=base_num_decoder_layers=1",
        "--set=head_dim=8",
        "--set=max_target_length=32",
        "--set=per_device_batch_size=1",
        "--set=attention=dot_product",  # flash attention is a kernel for TPUs
        "--set=steps=30",  # of a second each
        "--set=checkpoint_period=10",
        "--set=grain_worker_count=0",  # no processes that load: this machine has two cores
    ],
    "ray start": ["--num-cpus=2", "--num-gpus=1"],  # a worker of Ray: one trainer on each node
    "ray start of a TPU": ["--num-cpus=2"],  # for 72, as many processes as Ray starts at once
}
# And after those, by the recipe.
OF_RECIPE = {
    "my-rows": [  # examples/own-data, which has twenty rows
        "--set=data.rows=16",
        "--set=data.test_rows=4",
    ],
    "gemma-3-12b-text-to-sql": [
        "--set=data.rows=32",  # some twenty steps
    ],
    "gemma-3-12b-text-to-sql-full": [
        "--set=data.rows=32",
    ],
    "gemma-4-31b-text-to-sql": [
        "--set=data.rows=48",  # 36 steps, with two workers
        "--set=training.max_length=512",  # of the tiny models' texts, several a row
        "--set=training.learning_rate=0.005",
    ],
    "gemma-3-4b-sql": [
        "--set=data.rows=120",  # all that there are
        "--set=training.max_length=256",
        "--set=training.epochs=6",  # some fifty steps: it lasts until serving has been scaled
        "--set=training.learning_rate=0.005",
        "--set=training.save_every_steps=1000",  # never: what is saved before the end, a stop has saved
    ],
}
# And after those, where nodes share the batch that is meant for one of them: two processes in all.
OF_NODES = {"--nodes=1": ["--batch-for=2"], "--nodes=2": ["--batch-for=2", "--processes=1"]}


def shard(state: Any) -> None:
    """Accelerate reads its sharding plugin for accelerators alone: accelerate/state.py."""
    original = state.AcceleratorState.__init__

    def initialize(self: Any, *arguments: Any, fsdp_plugin: Any = None, **options: Any) -> None:
        original(self, *arguments, fsdp_plugin=fsdp_plugin, **options)
        types = state.DistributedType
        if fsdp_plugin is not None and self.distributed_type == types.MULTI_CPU:
            if self.mixed_precision != "no":
                fsdp_plugin.set_mixed_precision(self.mixed_precision)
            self.fsdp_plugin = fsdp_plugin
            self.distributed_type = types.FSDP
            state.PartialState._shared_state["distributed_type"] = types.FSDP

    state.AcceleratorState.__init__ = initialize


def name_accelerator(nvidia: Any) -> None:
    """Ray asks the driver of NVIDIA what its GPUs are."""
    nvidia.NvidiaGPUAcceleratorManager.get_current_node_accelerator_type = staticmethod(lambda: "B200")


def train_on_cpus(devices: Any) -> None:
    """Ray Train gives workers with GPUs the device of one."""
    devices.SUPPORTED_ACCELERATOR_TORCH_DEVICE_MANAGER.clear()


def talk_by_gloo(config: Any) -> None:
    """Ray Train has workers with GPUs talk by NCCL."""
    original = config._TorchBackend.on_start

    def on_start(self: Any, workers: Any, settings: Any) -> None:
        settings.backend = "gloo"
        original(self, workers, settings)

    config._TorchBackend.on_start = on_start


def keep_weights_unpacked(functional: Any) -> None:
    """To infer on AVX-512 with bfloat16, bitsandbytes packs 4-bit weights: not those under 64 columns."""
    functional.has_avx512bf16 = lambda: False


def take_turns(node: Any) -> None:
    """Processes of a node have 15 seconds to start, https://github.com/ray-project/ray/issues/65983.

    Five nodes that start at once do not, on two cores. The head waits for no turn: workers wait for it.
    """
    original = node.Node.__init__

    def initialize(self: Any, *arguments: Any, **options: Any) -> None:
        with Path(__file__).open() as turn:
            if not options.get("head") and not options.get("connect_only"):
                fcntl.flock(turn, fcntl.LOCK_EX)
            original(self, *arguments, **options)

    node.Node.__init__ = initialize


def join_slices(mesh_utils: Any) -> None:
    """A CPU is in no slice, so JAX finds one. Ray has the processes in the order of their slices."""

    def create_hybrid_device_mesh(shape: Any, of_slices: Any, devices: Any, **_: Any) -> Any:
        numpy = importlib.import_module("numpy")
        in_order = sorted(devices, key=lambda device: (device.process_index, device.id))
        parts = numpy.array(in_order, dtype=object).reshape(numpy.prod(of_slices), -1)
        blocks = numpy.empty(len(parts), dtype=object)
        for number, part in enumerate(parts):
            blocks[number] = mesh_utils.create_device_mesh(shape, list(part))
        return numpy.block(blocks.reshape(of_slices).tolist())

    mesh_utils.create_hybrid_device_mesh = create_hybrid_device_mesh


# What is changed in a module as soon as it has been imported.
CHANGES: dict[str, Callable[[Any], None]] = {
    "accelerate.state": shard,
    "bitsandbytes.functional": keep_weights_unpacked,
    "jax.experimental.mesh_utils": join_slices,
    "ray._private.accelerators.nvidia_gpu": name_accelerator,
    "ray._private.node": take_turns,
    "ray.air._internal.device_manager": train_on_cpus,
    "ray.train.torch.config": talk_by_gloo,
}


class Changing(importlib.abc.MetaPathFinder):
    """Finds the modules that are changed, and changes them after their import."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The spec of a module that is changed, None for other modules."""
        if name not in CHANGES:
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        loader: Any = spec.loader if spec else None
        execute = loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            CHANGES[name](module)

        loader.exec_module = execute_and_change
        return spec


def command() -> str:
    """The command of trainer, trial or Ray in this process. Empty for processes that torchrun starts."""
    words = sys.orig_argv
    if sys.argv[0].endswith("/bin/ray"):  # it also submits the trainer's command
        starts = "start" in words and "--head" not in words
        return ("ray start of a TPU" if "TPU_NAME" in os.environ else "ray start") if starts else ""
    if words[1:3] in (["-m", "maxtext_driver"], ["-m", "trial"]):
        return words[2]
    is_trainer = "finetune" in words and "-m" in words[:-2]
    if is_trainer and "LOCAL_RANK" not in os.environ:
        return words[words.index("finetune") + 1]
    return ""


if __name__ == "sitecustomize":  # and not a module that somebody imports
    if "JAX_PLATFORMS" in os.environ:
        os.environ["JAX_PLATFORMS"] = "cpu"  # for TPUs and CPU
    sys.meta_path.insert(0, Changing())
    if command():
        sys.argv += ARGUMENTS.get(command(), [])
        for recipe in {word.removeprefix("--recipe=") for word in sys.argv} & OF_RECIPE.keys():
            sys.argv += OF_RECIPE[recipe]
        if any(word.startswith("--batch-for=") for word in sys.argv):
            for nodes in OF_NODES.keys() & {*sys.argv}:
                sys.argv += OF_NODES[nodes]
