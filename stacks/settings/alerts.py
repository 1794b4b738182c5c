"""The address that gets a stack's alerts."""

from typing import Annotated

from pydantic import Field

from stacks.settings.reader import GoogleSettings, Hint


class AlertSettings(GoogleSettings):
    """Settings of the alerts of every scenario."""

    alert_email: Annotated[str | None, Hint(values="an e-mail address")] = Field(
        None,
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        examples=["me@example.com"],
        description="Address that gets an e-mail when a job has failed, when accelerators have been idle for "
        "half an hour, and when a workload has waited for an hour. Without it there are no alerts, which "
        "Google bills.",
    )
