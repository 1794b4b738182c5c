"""What the TPU compiler says of a training step."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of one training step on one chip, in bytes; `hbm` and `host` are what the program needs at its peak."""

    hbm: int
    host: int
    tokens: int
    received: dict[str, int]
    compile_seconds: float

    @property
    def received_per_token(self) -> float:
        """Bytes from other chips for each token that this chip trains on."""
        return sum(self.received.values()) / self.tokens
