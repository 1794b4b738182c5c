"""A LoRA layer that adds the adapter's output to the frozen layer's in one matrix operation (`addmm`).

PEFT's own layer writes a tensor of the output's size three times: product, scaling, sum. When the base model
is in bf16 it also copies the layer's input to fp32, the adapter's type, and autocast converts the copy back
to bf16.
"""

from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora import Linear
from torch.nn import functional


class FusedLoraLinear(Linear):
    """A frozen linear layer, quantized or not, with its adapter. Its results are PEFT's up to rounding."""

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """Map `[..., inputs]` to `[..., outputs]`."""
        if self.disable_adapters or self.merged or len(self.active_adapters) != 1:
            return super().forward(x, *arguments, **options)
        (name,) = self.active_adapters
        rows = x.flatten(0, -2)
        frozen = self.base_layer(rows)
        adapter: Any = self.lora_A[name], self.lora_B[name]
        down, up = (layer.weight.to(frozen.dtype) for layer in adapter)
        inner = functional.linear(self.lora_dropout[name](rows.to(frozen.dtype)), down) * self.scaling[name]
        return torch.addmm(frozen, inner, up.t()).unflatten(0, x.shape[:-1])


def use_fused_layers(config: LoraConfig) -> LoraConfig:
    """Make PEFT use this class for every linear layer that gets an adapter."""
    config._register_custom_module({torch.nn.Linear: FusedLoraLinear})
    return config
