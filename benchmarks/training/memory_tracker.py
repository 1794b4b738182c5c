"""Counts the memory of a training step by part, with torch's memory trackers."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker, _FSDPRefType
from torch.distributed._tools.mem_tracker import MemTracker, _MemRefType
from torch.distributed.tensor._sharding_prop import ShardingPropagator
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from transformers import TrainerCallback
from trl.trainer.utils import _CHUNKED_LOGPROB_CHUNK_SIZE

# Parts by the names of torch's two trackers. `Watch` takes the adapter's weights from the weights. Logits are
# those that the loss has at a time. Gathered are the weights of other processes that FSDP2 has at a time.
PARTS: Final = {
    "Parameter": "weights",
    "Sharded Param": "weights",
    "Buffer": "weights",
    "Unsharded Param": "gathered",
    "All Gather": "gathered",
    "Gradient": "gradients",
    "Sharded Grad": "gradients",
    "Unsharded Grad": "gradients",
    "Reduce Scatter": "gradients",
    "Optstate": "optimizer",
    "OptState": "optimizer",
    "Activation": "activations",
    "Temp": "backward",
    "Other": "logits",
    "Inputs": "logits",
}


class _Answers(TorchDispatchMode):
    """Gives fake tensors a value for code that asks for one: True or 1."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default:
            dtype = args[0].dtype
            if dtype is torch.bool:
                return True
            return 1.0 if dtype.is_floating_point else 1
        return func(*args, **(kwargs or {}))


class _Wires(TorchDispatchMode):
    """Counts the bytes that a process sends to others, as a ring of them sends them.

    Attributes:
        sent: The bytes so far.
    """

    # Bytes that a ring sends for a byte of the whole tensor, before the share (processes - 1) / processes.
    ROUNDS: Final = {"_allgather_base_": 1, "_reduce_scatter_base_": 1, "allreduce_": 2}

    def __init__(self, processes: int):
        super().__init__()
        self.sent, self._share = 0, (processes - 1) / processes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if rounds := self.ROUNDS.get(func.overloadpacket.__name__):
            tensors = [tensor for argument in args[:2] for tensor in _tensors(argument)]
            self.sent += round(rounds * self._share * max(tensor.nbytes for tensor in tensors))
        return func(*args, **(kwargs or {}))


def _tensors(argument: Any) -> list[torch.Tensor]:
    items = argument if isinstance(argument, list | tuple) else [argument]
    return [item for item in items if isinstance(item, torch.Tensor)]


def _is_logits(tensor: torch.Tensor) -> bool:
    return tensor.ndim > 1 and tensor.shape[-1] == _CHUNKED_LOGPROB_CHUNK_SIZE


class _Tracker(MemTracker):
    """Counts logits apart, under torch's name `Other`."""

    def _track(self, reftype: Any, t: torch.Tensor) -> None:
        super()._track(_MemRefType.OTH if _is_logits(t) else reftype, t)


class _ShardedTracker(FSDPMemTracker):
    """The same for FSDP2, with logits under torch's name `Inputs`."""

    def _track(self, reftype: Any, t: torch.Tensor) -> None:
        super()._track(_FSDPRefType.INP if _is_logits(t) else reftype, t)

    def _fsdp_param_group_pre_backward(
        self, fsdp_mod: Any, orig_fsdp_param_group_pre_backward: Callable[..., Any]
    ) -> Callable[..., None]:
        """torch's hook, but not for layers whose forward pass never runs, as that of the output layer."""
        original = orig_fsdp_param_group_pre_backward
        tracked = super()._fsdp_param_group_pre_backward(fsdp_mod, original)

        def pre_backward(*arguments: Any) -> None:
            (tracked if fsdp_mod in self.memory_tracking else original)(*arguments)

        return pre_backward

    def _fsdp_param_group_post_backward(
        self, fsdp_mod: Any, orig_fsdp_param_group_post_backward: Callable[..., Any]
    ) -> Callable[..., None]:
        """torch's hook, but not for layers that take no part in the step, as those of pictures with text."""
        original = orig_fsdp_param_group_post_backward
        tracked = super()._fsdp_param_group_post_backward(fsdp_mod, original)

        def post_backward(*arguments: Any) -> None:
            (tracked if fsdp_mod in self.memory_tracking else original)(*arguments)

        return post_backward


def _not_tracked(propagate: Callable[..., Any]) -> Callable[..., Any]:
    """DTensor's own computation of shapes, for which it makes tensors without content of the full size."""

    def apart(*arguments: Any) -> Any:
        with _disable_current_modes():
            return propagate(*arguments)

    return apart


class Watch(TrainerCallback):
    """Tracks the step. The optimizer has its state already, as in every step but the first.

    Attributes:
        peak: Bytes of each part at the peak of the step.
        wires: What the step sends to other processes.
    """

    def __init__(self, mode: FakeTensorMode | None, sharded: bool, processes: int = 1):
        self._mode, self._sharded = mode, sharded
        self.wires = _Wires(processes)
        self._step = ExitStack()
        self.peak = Counter(dict.fromkeys(("weights", "adapter", *PARTS.values()), 0))

    def on_train_begin(self, *_: Any, model: Any, optimizer: Any, **__: Any) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        # accelerate tells weights apart by their addresses, and fake ones have none.
        for group in optimizer.param_groups:
            group["params"] = []
        optimizer.param_groups[0]["params"] = trained
        with self._on_fake_tensors():
            for weight in trained:
                weight.grad = torch.zeros_like(weight)
            optimizer.optimizer.step()
            optimizer.zero_grad()

    def on_step_begin(self, *_: Any, model: Any, optimizer: Any, **__: Any) -> None:
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        self.peak["adapter"] = sum(_local(weight) for weight in trained)
        if self._sharded:
            self._tracker: Any = _ShardedTracker(model, optimizer.optimizer)
        else:
            self._tracker = _Tracker()
            # These compute figures of each module, and fail on frozen weights.
            for hook in ("_pre_fw_hook", "_post_fw_hook", "_pre_bw_hook", "_post_bw_hook"):
                setattr(self._tracker, hook, lambda *_: None)
            self._tracker.track_external(model, optimizer.optimizer)
            for weight in trained:
                weight.register_post_accumulate_grad_hook(self._is_gradient)
        shapes = "_propagate_tensor_meta_non_cached"
        apart = _not_tracked(getattr(ShardingPropagator, shapes))
        self._step.enter_context(patch.object(ShardingPropagator, shapes, apart))
        self._step.enter_context(self._on_fake_tensors())
        self._step.enter_context(self.wires)
        self._step.enter_context(self._tracker)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._step.close()
        (snapshot,) = self._tracker.get_tracker_snapshot("peak").values()
        for kind, size in snapshot.items():
            if kind != "Total":
                self.peak[PARTS[str(kind.value)]] += size
        self.peak["weights"] -= self.peak["adapter"]

    def _is_gradient(self, weight: torch.Tensor) -> None:
        self._tracker._update_and_maybe_create_winfos(weight.grad, _MemRefType.GRAD)

    def _on_fake_tensors(self) -> ExitStack:
        stack = ExitStack()
        if self._mode:
            stack.enter_context(self._mode)
            stack.enter_context(_Answers())
        return stack


def _local(weight: Any) -> int:
    return getattr(weight, "_local_tensor", weight).untyped_storage().nbytes()
