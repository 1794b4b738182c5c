"""The rehearsal: the Pulumi program on the real engine, with no cloud and no account."""

from rehearsal.errors import RehearsalError
from rehearsal.plan import Plan, Planned
from rehearsal.recorder import Result
from rehearsal.session import Rehearsal

__all__ = ["Plan", "Planned", "Rehearsal", "RehearsalError", "Result"]
