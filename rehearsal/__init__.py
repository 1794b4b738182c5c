"""The rehearsal: the Pulumi program on the real engine, with no cloud and no account."""

from rehearsal.errors import RehearsalError
from rehearsal.session import Rehearsal

__all__ = ["Rehearsal", "RehearsalError"]
