"""What Cloud Run promises to a container holds for one that is run here."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cloud.services.cloudrun import JOB, SERVICE
from cloud.services.secretmanager import SECRET
from rehearsal.control_plane.api import until
from rehearsal.fakes.cloud import FakeCloud, Item, Rejected
from rehearsal.fakes.cloud_run_server import CloudRunServer
from rehearsal.pods.image import Image
from rehearsal.running_pods import cloud_run
from rehearsal.running_pods.cloud_run import CloudRun
from rehearsal.running_pods.stage import TIMEOUT
from tests.pods.conftest import bare_machine

NAME = "projects/p/locations/l/jobs/tried"


@pytest.fixture
def server() -> CloudRunServer:
    """What the program asks to run a job."""
    return CloudRunServer(FakeCloud())


@pytest.fixture
def runner(server: CloudRunServer, image: Image, hosts: Path, tmp_path: Path) -> Iterator[CloudRun]:
    """Runs containers in the tests' network, without a bucket, Hub or metadata server around them."""
    runner = CloudRun(server._cloud, server, bare_machine(image, tmp_path))
    yield runner
    runner.stop()


Execute = Callable[..., str]


@pytest.fixture
def execute(server: CloudRunServer, runner: CloudRun) -> Execute:
    """Starts a shell script as a job, and returns the name of the execution."""

    def execute(script: str, task: Any = None, **container: Any) -> str:
        template = {"template": template_of(script, **container) | (task or {})}
        server._cloud.add(Item(JOB.type, NAME, "tried", {"template": template}, {}))
        code, started = server.answer("POST", f"/v2/{NAME}:run", {})
        assert code == 200
        return started["metadata"]["name"]

    return execute


def template_of(script: str, **container: Any) -> dict[str, Any]:
    container = {"image": "finetune", "commands": ["sh", "-c", script], **container}
    return {"containers": [container], "serviceAccount": "tried@p.iam.gserviceaccount.com"}


def ended(server: CloudRunServer, execution: str) -> str:
    """Waits until an execution has ended. Returns why it failed, or an empty text."""
    until(lambda: execution, lambda: "completionTime" in server.executions[execution], TIMEOUT)
    (condition,) = server.executions[execution]["conditions"]
    return condition["message"]


def test_a_task_is_tried_again_as_often_as_the_job_says(
    server: CloudRunServer, runner: CloudRun, execute: Execute
) -> None:
    execution = execute('echo "$CLOUD_RUN_EXECUTION $CLOUD_RUN_TASK_ATTEMPT"; exit 3', {"maxRetries": 1})
    short = execution.rpartition("/")[2]
    assert (
        ended(server, execution)
        == f"Task {short}-task0 failed with message: The container exited with an error."
    )
    assert [instance.log() for instance in runner.instances] == [f"{short} {attempt}\n" for attempt in (0, 1)]


def test_a_task_that_succeeds_at_last_is_success(server: CloudRunServer, execute: Execute) -> None:
    execution = execute("exit $((1 - CLOUD_RUN_TASK_ATTEMPT))")
    assert ended(server, execution) == ""


def test_a_task_is_ended_when_its_time_is_up(
    server: CloudRunServer, runner: CloudRun, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(cloud_run, "time", SimpleNamespace(monotonic=lambda: seconds[-1]))
    script = "trap 'echo asked; exit' TERM; echo there; sleep 999 & wait"
    execution = execute(script, {"timeout": "60s", "maxRetries": 0})
    until(lambda: "its start", lambda: runner.instances and log_of(runner) == "there\n", TIMEOUT)
    seconds.append(60.5)
    assert ended(server, execution).endswith("The configured timeout was reached.")
    assert runner.instances[0].log() == "there\nasked\n"


def test_a_cancelled_execution_is_asked_to_end_and_not_tried_again(
    server: CloudRunServer, runner: CloudRun, execute: Execute
) -> None:
    execution = execute("trap 'echo asked; exit 1' TERM; echo there; sleep 99 & wait")
    until(lambda: "its start", lambda: runner.instances and log_of(runner) == "there\n", TIMEOUT)
    code, _ = server.answer("POST", f"/v2/{execution}:cancel", {})
    assert code == 200
    assert ended(server, execution) == "cancelled"
    assert [instance.log() for instance in runner.instances] == ["there\nasked\n"]


def log_of(runner: CloudRun) -> str:
    """The log of the newest instance. Empty before it has one."""
    try:
        return runner.instances[-1].log()
    except FileNotFoundError:
        return ""


def test_a_variable_has_the_version_of_a_secret_that_is_named(
    server: CloudRunServer, runner: CloudRun, execute: Execute
) -> None:
    server._cloud.add(Item(SECRET.type, "projects/p/secrets/token", "token", {}, {"secretId": "token"}))
    for version in ("1", "2"):
        inputs = {"secret": "projects/p/secrets/token", "secretData": f"text {version}"}
        server._cloud.add(
            Item(
                "gcp:secretmanager/secretVersion:SecretVersion",
                version,
                "version",
                inputs,
                {"version": version},
            )
        )
    source = {"secretKeyRef": {"secret": "token", "version": "2"}}
    execution = execute("echo $TOKEN", envs=[{"name": "TOKEN", "valueSource": source}])
    assert ended(server, execution) == ""
    assert runner.instances[0].log() == "text 2\n"


def test_a_folder_of_a_bucket_is_mounted_alone_and_only_to_be_read(
    server: CloudRunServer, runner: CloudRun, execute: Execute, tmp_path: Path
) -> None:
    (tmp_path / "buckets/mine/code/one").mkdir(parents=True)
    (tmp_path / "buckets/mine/code/one/file").write_text("text\n")
    gcs = {"bucket": "mine", "readOnly": True, "mountOptions": ["only-dir=code/one", "implicit-dirs"]}
    mounted = [{"name": "code", "mountPath": "/code"}]
    execution = execute(
        "cat /code/file; echo no > /code/file",
        {"volumes": [{"name": "code", "gcs": gcs}], "maxRetries": 0},
        volumeMounts=mounted,
    )
    assert ended(server, execution)
    assert runner.instances[0].log().startswith("text\n")
    assert (tmp_path / "buckets/mine/code/one/file").read_text() == "text\n"


def service(script: str, tries: int) -> Item:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": tries}
    template = template_of(script, startupProbe=probe)
    return Item(SERVICE.type, "service", "service", {"template": template, "name": "tried"}, {})


def test_a_service_whose_probe_never_succeeds_is_not_made(server: CloudRunServer, runner: CloudRun) -> None:
    with pytest.raises(Rejected, match=r"'tried-00001-...' is not ready .* startup probe checks"):
        server._cloud.on_write(service("trap exit TERM; sleep 99 & wait", tries=1))
    assert not runner.instances[0].thread.is_alive()


def test_a_service_that_ends_before_it_is_ready_is_not_made(server: CloudRunServer, runner: CloudRun) -> None:
    with pytest.raises(Rejected, match=r"'tried-00001-...' is not ready"):
        server._cloud.on_write(service("exit 0", tries=60))


def test_a_service_runs_from_its_making_to_its_end(server: CloudRunServer, runner: CloudRun) -> None:
    item = service('trap exit TERM; python -m http.server "$PORT" & wait', tries=60)
    server._cloud.on_write(item)
    assert runner.instances[0].status["ready"]
    server._cloud.remove(item)
    assert not runner.instances[0].thread.is_alive()
