"""Counts the floating-point operations of a compiled program: matrix products and attention in its HLO text.

What is in a loop counts once per iteration, and a kernel by what it computes: compilers count neither.
"""

import re

from benchmarks.tpu_compile.program import Instruction, Program, UnreadableProgram

# Matrix products in Pallas' splash attention; its backward kernel for k and v may compute q's gradient too.
_PRODUCTS = {"splash_mha_fwd": 2, "splash_mha_dq": 3, "splash_mha_dkv": 4}


def operations(program: Program) -> int:
    """Floating-point operations of one run on one chip; a product and its sum are two.

    Raises UnreadableProgram for a kernel that is not known.
    """
    total = 0
    for inside, each, times in program.runs():
        if each.opcode == "convolution":
            names = each.operands()[:2]
            total += times * _convolution(each, *(program.computations[inside][name] for name in names))
        total += times * attention(each)
    return total


def attention(kernel: Instruction) -> int:
    """Those of a kernel of splash attention: half of each product, since the other half is masked."""
    if 'custom_call_target="tpu_custom_call"' not in kernel.rest:
        return 0
    name = next((name for name in _PRODUCTS if kernel.name.startswith(name)), None)
    _, _, operands = kernel.rest.partition("operand_layout_constraints=")
    queries = re.search(r"\bb?f\d+\[(\d+),(\d+),(\d+),(\d+)\]", operands)
    if name is None or queries is None:
        raise UnreadableProgram(f"{kernel.name} is a kernel whose operations are not known")
    rows, heads, length, width = map(int, queries.groups())
    products = _PRODUCTS[name] + (name == "splash_mha_dkv" and len(kernel.arrays()) == 3)
    return products * rows * heads * length**2 * width


def _convolution(product: Instruction, *operands: Instruction) -> int:
    """A matrix product as XLA:TPU writes it: its batch and heads are directions of space, with windows."""
    labels = re.split("_|->", product.rest.partition("dim_labels=")[2].split(",")[0])
    shapes = [each.arrays()[0].lengths for each in (*operands, product)]
    left, right, result = (dict(zip(*each, strict=True)) for each in zip(labels, shapes, strict=True))
    total = 2 * result["b"] * result["f"] * right["i"]
    window = dict(re.findall(r"(\w+)=([\dx_-]+)", product.rest.partition("window={")[2].split("}")[0]))
    for place, name in enumerate(sorted(name for name in left if name.isdigit())):
        said = {key: int(value.split("x")[place].split("_")[0]) for key, value in window.items()}
        stride, gap, spread = (said.get(key, 1) for key in ("stride", "lhs_dilate", "rhs_dilate"))
        at = [
            o * stride + w * spread - said.get("pad", 0)
            for o in range(result[name])
            for w in range(right[name])
        ]
        total *= sum(spot % gap == 0 and 0 <= spot <= (left[name] - 1) * gap for spot in at)
    return total
