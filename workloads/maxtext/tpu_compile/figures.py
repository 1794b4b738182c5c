"""The figures of a training step that the TPU compiler has compiled."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures of one training step on one chip, in bytes; `hbm` and `host` are peaks of memory."""

    hbm: int
    host: int
    tokens: int
    received: dict[str, int]
    compile_seconds: float

    @property
    def received_per_token(self) -> float:
        """The bytes that a chip receives for each token that it trains on."""
        return sum(self.received.values()) / self.tokens
