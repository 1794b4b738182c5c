"""LoRA's product in one go: what it adds to a frozen layer is added while it is multiplied out.

PEFT's own layer writes the whole output three times over (product, scaling, sum), and beside weights in bf16
copies the layer's input to the fp32 of the adapter first, only for autocast to turn it back.
"""

from typing import Any

import torch
from peft import LoraConfig
from peft.tuners.lora import Linear
from torch.nn import functional


class AddedProduct(Linear):
    """A frozen linear layer, quantized or not, and its adapter; the same figures as PEFT's up to rounding."""

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """`[..., inputs]` to `[..., outputs]`."""
        if self.disable_adapters or self.merged or len(self.active_adapters) != 1:
            return super().forward(x, *arguments, **options)
        (name,) = self.active_adapters
        rows = x.flatten(0, -2)
        frozen = self.base_layer(rows)
        adapter: Any = self.lora_A[name], self.lora_B[name]
        down, up = (layer.weight.to(frozen.dtype) for layer in adapter)
        inner = functional.linear(self.lora_dropout[name](rows.to(frozen.dtype)), down) * self.scaling[name]
        return torch.addmm(frozen, inner, up.t()).unflatten(0, x.shape[:-1])


def add_products(config: LoraConfig) -> LoraConfig:
    """Have PEFT make these layers of whatever linear ones the adapter is for."""
    config._register_custom_module({torch.nn.Linear: AddedProduct})
    return config
