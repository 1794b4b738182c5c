"""A run in a bucket that exists before the stack, beside what others have in it."""

import pytest

from rehearsal.running_pods.stage import Stage
from tests import plans
from tests.pods.conftest import Play
from tests.pods.test_own_rows import content, ends_well, runs

NAME = "bucket-of-the-team"


@pytest.mark.slow
def test_a_run_is_in_its_stacks_folder_and_outlives_the_stack_beside_what_was_there(play: Play) -> None:
    stage: Stage = play("a4-accelerate", bucket=f"gs://{NAME}", imageUri=plans.IMAGE)
    bucket = stage.around.buckets.folder / NAME
    # The run of another stack, with the record that would refuse this one.
    (theirs := bucket / "another-stack" / "run").mkdir(parents=True)
    (theirs / "run.json").write_text("{}")
    (bucket / "rows.jsonl").write_text('{"a": "b"}\n')
    before = content(bucket)
    stage.stack.up()
    assert ends_well(stage, "only")
    (run,) = runs(stage)
    assert run.parent == bucket / "a4-accelerate"
    trained = content(bucket)
    assert before.items() <= trained.items()
    stage.stack.destroy()
    assert content(bucket) == trained
