"""Fixtures of the workload tests: no network, temporary directories only, one tiny model."""

import gc
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.once import once

if TYPE_CHECKING:
    from trial_command import Ended

    from finetune.settings.recipe import Recipe
    from rehearsal.stand_ins.bucket import Buckets
    from rehearsal.stand_ins.hub import Hub

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_HUB = pytest.StashKey["Hub"]()
WORKLOADS = ROOT / "workloads"
sys.path[:0] = [str(WORKLOADS), str(HERE)]
# Set before pytest collects: torch reads it when it is imported, and some files import torch at their top.
# No tiny model gains by a second thread, which waits busily and took most of the CPU time of these tests.
os.environ["OMP_NUM_THREADS"] = "1"
# torch and transformers are half a million objects that stay. The default looks for garbage among them often.
gc.set_threshold(100_000, 20, 20)


# What lasts as long as the tests of this process.
_whole_session = ExitStack()


def pytest_sessionstart(session: pytest.Session) -> None:
    """The Hub of this machine is there before pytest collects, because libraries read its address."""
    from rehearsal.stand_ins.hub import Hub

    session.stash[_HUB] = hub = _whole_session.enter_context(Hub())
    home = tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True)
    os.environ |= {
        "HF_ENDPOINT": hub.address,
        "HF_HOME": _whole_session.enter_context(home),
        "HF_HUB_OFFLINE": "1",
    }
    os.environ.pop("HF_TOKEN", None)


def pytest_sessionfinish() -> None:
    """The Hub ends with the tests."""
    _whole_session.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files whose tests start processes come first: none of them is to be what the others wait for."""
    long = {item.path for item in items if "warm" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in long)


@pytest.fixture
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Hub":
    """A Hub of this machine, without a repository, which this process and those that it starts may ask."""
    import datasets.config
    import huggingface_hub

    hub = request.session.stash[_HUB]
    hub.reset()
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    return hub


@contextmanager
def cloud_storage(folder: Path) -> "Generator[Buckets]":
    """Cloud Storage of this machine with the bucket gs://bucket, also for processes that are started."""
    from rehearsal.stand_ins.bucket import Buckets
    from rehearsal.stand_ins.metadata import MetadataServer

    (folder / "bucket").mkdir(parents=True)
    metadata = MetadataServer(lambda _address: "token", "project", "trainer@project")
    with Buckets(folder) as buckets, metadata, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", buckets.address)
        patch.setenv("GCE_METADATA_ROOT", metadata.address.removeprefix("http://"))
        patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        yield buckets


@pytest.fixture
def buckets(tmp_path: Path) -> "Iterator[Buckets]":
    """Cloud Storage with an empty gs://bucket."""
    with cloud_storage(tmp_path / "buckets") as buckets:
        yield buckets


@pytest.fixture
def impatient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Google's client gives up after a second of a first access."""
    monkeypatch.setattr("finetune.storage.folder.FIRST_RETRY_LIMIT", timedelta(seconds=1))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> "Clock":
    """The time of a start that begins now. Pauses pass at once."""
    from shared.patience import LIMIT, RETRY_BUDGET

    clock = Clock()
    monkeypatch.setattr("shared.patience.time", clock)
    monkeypatch.setattr(RETRY_BUDGET, "_left", LIMIT)
    monkeypatch.setattr(RETRY_BUDGET, "_counted_until", -math.inf)
    return clock


class Clock:
    """Seconds since it was made, and the pauses since then."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.pauses.append(seconds)


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Environment variables, also of child processes, besides those of `pytest_sessionstart`."""
    home = tmp_path_factory.mktemp("home")
    # Ray puts sockets there, whose paths have at most 107 bytes. The path of pytest's directory is longer.
    short = tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
    os.environ |= {
        "CI": "1",
        "PYTHONPATH": f"{WORKLOADS}:{HERE}:{ROOT}",
        "RAY_AUTH_MODE": "disabled",
        "RAY_TMPDIR": short.name,
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": str(home),
        "TOKENIZERS_PARALLELISM": "false",
    }
    tempfile.tempdir = str(home)
    os.environ.pop("RAY_ADDRESS", None)
    yield
    short.cleanup()


@pytest.fixture(scope="session")
def warm(request: pytest.FixtureRequest) -> str:
    """A Python program that runs another, its first argument, which finds torch imported: warm.py."""
    import warm

    # Under xdist the processes of the tests share one, which ends with the process that started them.
    shared = hasattr(request.config, "workerinput")
    os.environ["WARM_UNTIL"] = str(os.getppid() if shared else os.getpid())
    os.environ["WARM"] = once("warm", start_warm)
    return warm.__file__


def start_warm() -> str:
    """Start the process that programs are forked from. Returns its socket."""
    import warm

    # As short as that of Ray's sockets, and there when this process ends before the others.
    address = f"{tempfile.mkdtemp(prefix='warm-', dir='/tmp')}/socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        files = [(os.POSIX_SPAWN_DUP2, listener.fileno(), 0)]
        os.posix_spawn(sys.executable, [sys.executable, "-u", warm.__file__], os.environ, file_actions=files)
    return address


@pytest.fixture(autouse=True)
def default_termination() -> Iterator[None]:
    """Restore the handlers of signals, which a run replaces."""
    yield
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test is a submission of its own."""
    from shared.remembered import SUBMISSION

    monkeypatch.delenv(SUBMISSION, raising=False)


@pytest.fixture
def from_hub(hub: "Hub", tiny: Path, tmp_path: Path) -> list[str]:
    """The command of a run whose model and data set, both called as the test's directory, are on the Hub."""
    from rehearsal.running_pods.tiny import make_recipe

    name = f"me/{tmp_path.name}"
    hub.model(name).push(tiny / "text-model")
    hub.data_set(name).push(tiny / "emoji")
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji", batch_size=1)
    names = [f"--set={section}.name={name}" for section in ("model", "data")]
    return ["local", f"--recipe={recipe}", f"--storage={tmp_path}/store", "--run=mine", *names]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> "list[Recipe]":
    """The recipes that were trained, had somebody trained them."""
    recipes: list[Recipe] = []
    monkeypatch.setattr("finetune.local_driver.run_local", lambda recipe, *_: recipes.append(recipe) or 0)
    return recipes


@pytest.fixture(scope="session")
def emoji_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the emoji recipe with 4-bit weights, and its recipe in the directory above."""
    return _run(tiny, tmp_path_factory.mktemp("emoji"), "gemma-3-1b-emoji", "nf4")


@pytest.fixture(scope="session")
def sql_run(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the SQL recipe on the vision model, and its recipe in the directory above."""
    more = {"result": "model", "evaluate_every_steps": 5}
    return _run(tiny, tmp_path_factory.mktemp("sql"), "gemma-3-12b-text-to-sql", "none", **more)


def _run(tiny: Path, store: Path, shipped: str, quantization: str, **training: Any) -> Path:
    from finetune.__main__ import main
    from rehearsal.running_pods.tiny import make_recipe

    recipe = make_recipe(store / "recipe.yaml", tiny, shipped, batch_size=1, **training)
    recipe.write_text(recipe.read_text().replace("quantization: none", f"quantization: {quantization}"))
    assert main(["local", "--recipe", str(recipe), "--storage", str(store), "--run", "mine"]) == 0
    return store / "mine"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with `model` and `data` with pictures, and `text-model` with `emoji` and `sql`."""
    from rehearsal.running_pods.tiny import make_data, make_model, make_text_model, make_texts

    path = tmp_path_factory.mktemp("tiny")
    make_data(path / "data")
    make_texts(path)
    make_model(path / "model")
    make_text_model(path / "text-model")
    return path


@pytest.fixture
def tried(warm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Callable[..., Ended]":
    """Runs the command of a trial on a recipe. It forks, which a process that has trained cannot do well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(recipe: Path | str, *options: str) -> "Ended":
        from trial_command import Ended

        program = [sys.executable, warm, str(ROOT / "workloads/trial/__main__.py")]
        done = subprocess.run(
            [*program, f"--recipe={recipe}", *options],
            capture_output=True,
            text=True,
            check=False,
            env=dict(os.environ),
        )
        return Ended(code=done.returncode, out=done.stdout, err=done.stderr)

    return run
