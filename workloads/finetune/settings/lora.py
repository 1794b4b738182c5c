"""The section of a recipe about its adapter."""

from pydantic import Field, PositiveInt, field_validator

from finetune.settings.values import Section, Text


class Lora(Section):
    """The adapter. A recipe without this section trains all weights of the language model."""

    rank: PositiveInt = Field(16, description="Rank of the adapter's matrices.")
    alpha: PositiveInt = Field(16, description="Scale of the adapter: its output counts alpha / rank times.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of the adapter's inputs that a step drops.")
    target_modules: Text | None = Field(
        None,
        description="Layers that get an adapter: a regular expression over full module names. By default, or "
        "with all-linear, every linear layer of the language model but its head and the routers of experts.",
    )
    target_parameters: list[Text] = Field(
        [],
        description="Parameters that get an adapter besides, by the ends of their names: the experts of a "
        "mixture are no layers, such as mlp.experts.gate_up_proj. They need dropout 0.",
    )
    use_rslora: bool = Field(
        False, description="rsLoRA: the output counts alpha / sqrt(rank) times. vLLM serves such adapters."
    )
    use_dora: bool = Field(
        False,
        description="DoRA: each layer also learns the lengths of its columns. vLLM serves no such adapter, "
        "so a server needs training.result model.",
    )

    @field_validator("target_modules")
    @classmethod
    def _all_linear_is_the_default(cls, wanted: str | None) -> str | None:
        return None if wanted == "all-linear" else wanted
