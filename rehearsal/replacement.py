"""What a change of inputs does to a resource."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Changes:
    """What differs between old and new inputs.

    Args:
        updates: Paths that change in place.
        replaces: Paths whose change makes a new resource.
        delete_first: Whether the old resource must go before the new one can be made.
    """

    updates: list[str] = field(default_factory=list)
    replaces: list[str] = field(default_factory=list)
    delete_first: bool = False
