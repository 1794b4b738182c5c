"""A capacity that leaves the settings of a living stack is told before anything on it stops."""

import pytest

from rehearsal.fakes import finished_run
from rehearsal.session import Rehearsal
from stacks.settings.reader import SettingsError
from tests import plans
from tests.stacks.configuration import of_stack

BOTH, SPOT = '["spot", "onDemand"]', "spot"


def test_up_warns_of_a_capacity_that_leaves_and_a_destroy_shows_what_to_do_if_it_fails() -> None:
    settings = plans.known_settings("serve", **plans.STANDING_SETTINGS)
    with Rehearsal("serve", {**settings, "capacity.type": BOTH}) as rehearsal:
        assert rehearsal.buckets
        finished_run.write_served_run(rehearsal.configuration.plain, rehearsal.buckets)
        rehearsal.up()
        assert "operations explain --stack serve" in plans.outputs(rehearsal)["ifDestroyFails"]
        rehearsal.configure({**settings, "capacity.type": SPOT})
        (warning,) = [text for text in rehearsal.preview().warnings if "no longer has" in text]
        assert warning.startswith(
            "capacity.type no longer has onDemand: what runs on these machines is stopped"
        )
        rehearsal.configure({**settings, "capacity.type": BOTH})
        assert not [text for text in rehearsal.preview().warnings if "no longer has" in text]


def test_minutes_that_do_nothing_are_refused() -> None:
    settings = plans.known_settings("serve", **{"capacity.type": BOTH, "capacity.minutes": "[5, 10]"})
    with pytest.raises(SettingsError, match="does nothing here without flexStart"):
        of_stack("serve", settings)
    of_stack("serve", {**settings, "capacity.type": '["flexStart", "spot"]'})
