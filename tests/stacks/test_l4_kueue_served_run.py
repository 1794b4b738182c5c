"""l4-kueue serves the result of its own training."""

import pytest

from rehearsal.errors import RehearsalError
from rehearsal.fakes.finished_run import write_run
from rehearsal.session import Rehearsal
from tests import plans
from tests.stacks.served_runs import arguments, mounted, run_in


def test_l4_kueue_serves_its_own_run_once_it_is_finished_and_the_next_one_once_that_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hub = {"imageUri": plans.IMAGE}
    own = {**hub, "serve": "run"}
    with Rehearsal("l4-kueue", hub) as rehearsal:
        rehearsal.up()
        assert "--served-model-name=google/gemma-3-12b-it" in arguments(rehearsal)
        rehearsal.configure(own)
        with pytest.raises(RehearsalError, match="there is no run"):
            rehearsal.up()
        assert "--served-model-name=google/gemma-3-12b-it" in arguments(rehearsal)

        (bucket,) = [item.id for item in rehearsal.cloud.of_type("gcp:storage/bucket:Bucket")]
        first = f"{bucket}/{plans.outputs(rehearsal)['run']}"
        write_run(run_in(rehearsal, first))
        rehearsal.up()
        assert mounted(rehearsal) == first and arguments(rehearsal)[0] == "/run-of-the-job/model"

        rehearsal.configure({**own, "recipeSet": '{"training.epochs": 2}'})
        rehearsal.up()
        second = f"{bucket}/{plans.outputs(rehearsal)['run']}"
        assert second != first and mounted(rehearsal) == first
        assert "is still served: there is no run" in capsys.readouterr().out
        assert rehearsal.preview().changed

        write_run(run_in(rehearsal, second))
        rehearsal.up()
        assert mounted(rehearsal) == second
        assert rehearsal.preview().changed == 0


def test_the_pods_that_serve_a_run_read_the_bucket_and_write_nothing() -> None:
    plan = plans.shipped("l4-kueue", imageUri=plans.IMAGE, serve="run")
    serving = {str(member.inputs["role"]) for member, _ in plans.roles(plan) if "-serving-" in member.name}
    assert serving == {"roles/storage.objectViewer", "roles/storage.legacyBucketReader"}
