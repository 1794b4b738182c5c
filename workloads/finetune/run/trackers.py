"""Trackers that transformers reports to: whether the image has them, and the names of their runs."""

import os
from collections.abc import Sequence
from pathlib import Path

from shared.errors import InputError


def check_trackers(names: Sequence[str]) -> None:
    """Raises InputError when a tracker is not in the image, or has no key."""
    if not names:
        return
    from transformers.integrations import get_available_reporting_integrations

    present = get_available_reporting_integrations()
    if missing := [name for name in names if name not in present]:
        raise InputError(
            f"training.report_to: this image has no {', '.join(missing)}, only {', '.join(present)}; "
            "docs/training/watching.md says how an image of your own has another"
        )
    offline = os.environ.get("WANDB_MODE") in ("offline", "disabled")
    if "wandb" in names and not (offline or os.environ.get("WANDB_API_KEY")):
        raise InputError("training.report_to: wandb needs its key in WANDB_API_KEY")


def name_run(workspace: Path) -> None:
    """Make Weights & Biases continue the run that is resumed, unless the environment says otherwise."""
    defaults = {"WANDB_RUN_ID": workspace.name, "WANDB_RESUME": "allow", "WANDB_DIR": str(workspace)}
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
