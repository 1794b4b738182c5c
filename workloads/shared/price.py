"""The dollars of a run's machines so far, by the price that its stack knows."""

import os

# The stack sets it: stacks/nodes/price.py. Dollars an hour, after the word `over` if a part has no price.
VARIABLE = "RUN_DOLLARS_PER_HOUR"
_OVER = "over "


def spent(trained_seconds: float) -> dict[str, float]:
    """The dollars so far, as a figure of the run's log. Empty where no price is known.

    `dollars_over` has the dollars of the parts whose price is known, if others have none.
    """
    text = os.environ.get(VARIABLE, "")
    try:
        per_hour = float(text.removeprefix(_OVER))
    except ValueError:
        return {}
    return {"dollars_over" if text.startswith(_OVER) else "dollars": per_hour * trained_seconds / 3600}


def words(figures: dict[str, float]) -> str:
    """The same at the end of a line for people."""
    return "".join(f" {name.replace('_', ' ')} {value:,.2f}" for name, value in figures.items())
