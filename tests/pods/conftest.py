"""Pods that run: a control plane in a network of its own. Without what that needs, the tests are skipped."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine import go_build, lookup
from engine.project import ROOT
from rehearsal.control_plane import ControlPlane, programs
from rehearsal.control_plane.api import Api
from rehearsal.pods import network
from rehearsal.pods.image import Image, lay_out
from rehearsal.pods.kubelet import Kubelet
from rehearsal.pods.pod import Machine
from rehearsal.running_pods.stage import CloudRunStage, Stage
from rehearsal.running_pods.surroundings import Surroundings
from tests import plans

PROGRAMS = (*programs.MODULES, programs.PROMETHEUS)


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds what is missing, and moves the tests into a network of their own. Returns its hosts file."""
    if reason := network.missing() or go_build.missing(PROGRAMS):
        pytest.skip(reason)
    go_build.build(PROGRAMS, print)
    lookup.find(print)
    hosts = tmp_path_factory.mktemp("network") / "hosts"
    network.enter(hosts)
    return hosts


@pytest.fixture(scope="session")
def plane(hosts: Path) -> Iterator[ControlPlane]:
    """A control plane whose pods nobody plays."""
    with ControlPlane(runs_pods=True) as plane:
        yield plane


@pytest.fixture(scope="session")
def api(plane: ControlPlane) -> Api:
    """Its API server."""
    return plane.api


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image of workloads/finetune."""
    return lay_out(ROOT / "workloads/finetune", tmp_path_factory.mktemp("image"))


def bare_machine(image: Image, folder: Path) -> Machine:
    """A node with nothing around it but empty buckets."""
    return Machine(
        image=lambda _reference: image,
        bucket=lambda name: folder / "buckets" / name,
        environment=lambda _pod, _own: {},
        mounts={},
        folder=folder,
    )


@pytest.fixture(scope="module")
def kubelet(
    plane: ControlPlane, image: Image, hosts: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kubelet]:
    """The kubelet of every node. No bucket, Hub or metadata server is around its pods."""
    with Kubelet(plane, bare_machine(image, tmp_path_factory.mktemp("kubelet")), hosts) as kubelet:
        yield kubelet


@pytest.fixture(scope="session")
def around(hosts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Surroundings]:
    """Buckets, a Hub and a metadata server."""
    with Surroundings(tmp_path_factory.mktemp("hub") / "made") as around:
        yield around


Play = Callable[..., Stage]


def without_trial(stack: str) -> dict[str, str]:
    """The setting that leaves out the trial, which costs each `up` half a minute. test_trial.py is about it.

    Tests also take all pods of a stack for those that train.
    """
    return plans.known_settings(stack, trial="false")


@pytest.fixture(scope="module")
def play(plane: ControlPlane, around: Surroundings, hosts: Path) -> Iterator[Play]:
    """Creates a stage of a stack with these settings, by default without its trial.

    Nothing of the stage before may be left.
    """
    with ExitStack() as stages:

        def play(stack: str, **settings: str) -> Stage:
            stages.close()
            overrides = without_trial(stack) | plans.keys(settings)
            stage = stages.enter_context(Stage(stack, overrides, plane, around, hosts))
            stages.callback(_leave_nothing, stage)
            return stage

        yield play


@pytest.fixture
def cloud_run(around: Surroundings) -> Iterator[CloudRunStage]:
    """The stack cloudrun-vllm before its `up`. After the test it is destroyed, and nothing is left."""
    with CloudRunStage("cloudrun-vllm", {}, around) as stage:
        yield stage
        stage.stack.remove()
        assert stage.stack.cloud.items == []
        assert not any(instance.thread.is_alive() for instance in stage.cloud_run.instances)


def _leave_nothing(stage: Stage) -> None:
    assert not stage.kubelet.refused(), "network policies have refused what the pods need"
    stage.stack.remove()
    assert stage.stack.cloud.items == []
    assert stage.stack.cluster and stage.stack.cluster.left() == []
