"""The published chat templates that trl ships, by its names, for base models without one.

No library is imported to read a recipe, so the names stand here. A test holds them against trl's files.
"""

from pathlib import Path
from typing import Literal

TemplateName = Literal[
    "cohere",
    "cohere2",
    "deepseek_r1_distill",
    "deepseekv3",
    "diffusion_gemma",
    "gemma",
    "gemma3",
    "gemma4",
    "gemma4_v2",
    "gemma4_v3",
    "gemma4_v4",
    "gemma4_v5",
    "glm4moe",
    "gptoss",
    "idefics3",
    "lfm2",
    "lfm2_2_5",
    "lfm2_2_5_v2",
    "lfm2_2_5_vl",
    "lfm2_v2",
    "llama3",
    "llama3_1",
    "llama3_2",
    "llava_next",
    "muse_glimmer",
    "nemotron_3_5_lightning",
    "nemotron_3_nano",
    "nemotron_3_super",
    "nemotron_3_ultra",
    "phi3",
    "phi3_5",
    "qwen2_5",
    "qwen2_5_vl",
    "qwen3",
    "qwen3_5_nothink",
    "qwen3_5_think",
    "qwen3_6",
    "qwen3_8",
    "qwen3_instruct_2507",
    "qwen3_vl",
    "smolvlm",
]


def template_text(name: TemplateName) -> str:
    """The text of a template."""
    import trl

    return Path(trl.__file__).with_name("chat_templates").joinpath(f"{name}.jinja").read_text()
