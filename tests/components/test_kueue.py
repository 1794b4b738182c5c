"""When an object is sent to Kueue again."""

import asyncio

import pulumi
import pytest

from components import kueue

LATE = 'Internal error occurred: failed calling webhook "mclusterqueue.kb.io": 502 Bad Gateway'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kueue, "_BACKOFF_S", 0.0)


@pytest.mark.parametrize(
    ("errors", "again"),
    [
        ([LATE], True),
        ([LATE, LATE], True),
        # Not for ever.
        ([LATE] * 100, False),
        (['admission webhook "x.kb.io" denied the request: nominalQuota must be >= 0'], False),
        (["no matches for kind", LATE], False),
    ],
)
def test_only_a_webhook_that_does_not_answer_is_tried_again(errors: list[str], again: bool) -> None:
    """The newest error is the first."""
    failed = pulumi.ErrorHookArgs("urn", "", "queue", "type", failed_operation="create", errors=errors)
    assert asyncio.run(kueue.is_tried_again(failed)) is again
