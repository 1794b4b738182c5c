"""When an object is sent to Kueue again."""

import asyncio

import pulumi
import pytest

from components import kueue

LATE = 'Internal error occurred: failed calling webhook "mclusterqueue.kb.io": 502 Bad Gateway'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kueue, "_BACKOFF_S", 0.0)


def tries(*errors: str) -> bool:
    """Whether there is another try after these errors, the newest first."""
    failed = pulumi.ErrorHookArgs("urn", "", "queue", "type", failed_operation="create", errors=list(errors))
    return asyncio.run(kueue.is_tried_again(failed))


def test_a_webhook_that_does_not_answer_is_tried_again() -> None:
    assert tries(LATE)
    assert tries(LATE, LATE)


def test_it_is_not_tried_for_ever() -> None:
    assert not tries(*[LATE] * 100)


def test_what_the_webhook_rejects_stays_rejected() -> None:
    assert not tries('admission webhook "vclusterqueue.kb.io" denied the request: nominalQuota must be >= 0')
    assert not tries("no matches for kind", LATE)
