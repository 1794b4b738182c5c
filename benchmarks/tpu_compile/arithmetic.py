"""Counts the floating-point operations of a compiled program: matrix products and attention in its HLO text.

An instruction in a loop counts once per iteration, and a kernel by its products. Compilers count neither.
"""

import re

from benchmarks.tpu_compile.program import Instruction, Program, UnreadableProgram

# Matrix products in Pallas' splash attention. Its backward kernel for k and v may compute q's gradient too.
_PRODUCTS = {"splash_mha_fwd": 2, "splash_mha_dq": 3, "splash_mha_dkv": 4}


def operations(program: Program) -> int:
    """Floating-point operations of one run on one chip. A product and its sum are two operations.

    Raises UnreadableProgram for a kernel that is not known.
    """
    total = 0
    for inside, instruction, times in program.runs():
        if instruction.opcode == "convolution":
            computation = program.computations[inside]
            operands = [computation[name] for name in instruction.operands()[:2]]
            total += times * _convolution(instruction, *operands)
        total += times * attention(instruction)
    return total


def attention(kernel: Instruction) -> int:
    """Operations of a kernel of splash attention, else 0. Half of each product is masked and not counted."""
    if 'custom_call_target="tpu_custom_call"' not in kernel.rest:
        return 0
    name = next((name for name in _PRODUCTS if kernel.name.startswith(name)), None)
    _, _, operands = kernel.rest.partition("operand_layout_constraints=")
    queries = re.search(r"\bb?f\d+\[(\d+),(\d+),(\d+),(\d+)\]", operands)
    if name is None or queries is None:
        raise UnreadableProgram(f"{kernel.name} is a kernel whose operations are not known")
    rows, heads, length, width = map(int, queries.groups())
    products = _PRODUCTS[name]
    if name == "splash_mha_dkv" and len(kernel.arrays()) == 3:
        products += 1
    return products * rows * heads * length**2 * width


def _convolution(product: Instruction, *operands: Instruction) -> int:
    """Operations of a matrix product, which XLA:TPU writes as a convolution.

    Its batch and heads are spatial dimensions with windows. A product counts when its place in the left
    operand is neither padding nor a gap.
    """
    labels = re.split("_|->", product.rest.partition("dim_labels=")[2].split(",")[0])
    shapes = [array.arrays()[0].lengths for array in (*operands, product)]
    left, right, result = (
        dict(zip(dimensions, lengths, strict=True))
        for dimensions, lengths in zip(labels, shapes, strict=True)
    )
    total = 2 * result["b"] * result["f"] * right["i"]
    window = dict(re.findall(r"(\w+)=([\dx_-]+)", product.rest.partition("window={")[2].split("}")[0]))
    for place, name in enumerate(sorted(name for name in left if name.isdigit())):
        settings = {key: int(value.split("x")[place].split("_")[0]) for key, value in window.items()}
        stride, gap, spread = (settings.get(key, 1) for key in ("stride", "lhs_dilate", "rhs_dilate"))
        last = (left[name] - 1) * gap
        products = 0
        for output in range(result[name]):
            for offset in range(right[name]):
                spot = output * stride + offset * spread - settings.get("pad", 0)
                if spot % gap == 0 and 0 <= spot <= last:
                    products += 1
        total *= products
    return total
