"""The command as a job of a real Ray: to Ray an end that no try helps is no failure, which is tried again."""

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from outcomes import losses

from rehearsal.running_pods.tiny import make_recipe

Submit = Callable[..., tuple[str, str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def submit(tiny: Path, store: Path) -> Iterator[Submit]:
    """Submits a run with further options. Returns the job's status at its end, and its log."""
    from ray.cluster_utils import Cluster
    from ray.job_submission import JobSubmissionClient

    recipe = make_recipe(store / "recipe.yaml", tiny, batch_size=1)
    # A free port each: those by default may be taken by another Ray of this machine.
    ports = {"dashboard_port": 0, "dashboard_agent_listen_port": 0}
    head = {"num_cpus": 3, "include_dashboard": True, **ports}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    client = JobSubmissionClient(f"http://{cluster.webui_url}")

    async def log_of(job: str) -> str:
        return "".join([lines async for lines in client.tail_job_logs(job)])

    def submit_run(run: str, *options: str) -> tuple[str, str]:
        command = [sys.executable, "-m", "finetune", "ray", f"--recipe={recipe}", f"--storage={store}"]
        job = client.submit_job(entrypoint=shlex.join([*command, f"--run={run}", "--workers=2", *options]))
        log = asyncio.run(log_of(job))
        return client.get_job_status(job), log

    yield submit_run
    cluster.shutdown()


def test_a_run_that_reaches_its_limit_saves_and_its_workers_are_not_started_again(
    submit: Submit, store: Path
) -> None:
    status, log = submit("limited", "--max-run-hours=1e-9")
    assert status == "STOPPED"
    assert log.count("2 processes, from step") == 1
    assert "error: the run has trained for" in log
    assert len(losses(store / "limited")) == 1
    assert [path.name[:19] for path in (store / "limited").glob("checkpoint-*")] == ["checkpoint-00000001"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("model.name=/absent", "error: model /absent is not a directory"),
        ("lora.target_modules=nothing", "error: lora.target_modules nothing matches no module"),
    ],
)
def test_bad_input_is_told_and_not_tried_again_whether_the_driver_or_a_worker_finds_it(
    wrong: str, message: str, submit: Submit
) -> None:
    status, log = submit(wrong.partition("=")[0].replace(".", "-"), f"--set={wrong}")
    assert status == "STOPPED"
    assert message in log
    assert log.count("2 processes, from step") <= 1
    # Ray's handler of signals is not heard of below the error.
    assert "SIGTERM" not in log


def test_what_may_pass_is_a_failure(submit: Submit, store: Path) -> None:
    """KubeRay tries again."""
    (store / "broken").mkdir()
    # Its first byte cannot be read: EIO, as from a disk that fails.
    (store / "broken" / "ended.json").symlink_to("/proc/self/mem")
    status, log = submit("broken")
    assert status == "FAILED", log
