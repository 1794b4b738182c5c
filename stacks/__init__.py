"""The scenarios: each composes components from its settings and returns the stack's outputs."""

from collections.abc import Mapping

import pulumi

from stacks import a4_accelerate, a4_ray, cloudrun_vllm, l4_kueue, tpu_maxtext
from stacks.settings import A4Accelerate, A4Ray, CloudrunVllm, L4Kueue, Settings, TpuMaxtext

Outputs = Mapping[str, pulumi.Input[str]]


def build(settings: Settings) -> Outputs:
    """Declares the resources of the scenario that `settings` belong to."""
    match settings:
        case A4Ray():
            return a4_ray.build(settings)
        case A4Accelerate():
            return a4_accelerate.build(settings)
        case CloudrunVllm():
            return cloudrun_vllm.build(settings)
        case L4Kueue():
            return l4_kueue.build(settings)
        case TpuMaxtext():
            return tpu_maxtext.build(settings)
