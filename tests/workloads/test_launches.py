"""The torchrun command without training: what it starts, starts again, and how it ends."""

import signal
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from launches import command, kept_signals

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe


@pytest.fixture
def recipe(tiny: Path, tmp_path: Path) -> Path:
    return make_recipe(tmp_path / "recipe.yaml", tiny, sharding="fsdp2")


def test_several_nodes_must_know_where_they_meet(
    recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command(recipe, tmp_path, "mine"), "--nodes=2"]) == 2
    assert "error: --nodes above 1 needs --rendezvous HOST:PORT" in capsys.readouterr().err


def test_a_single_node_waits_for_no_other(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest names a meeting place even then."""
    monkeypatch.setattr("finetune.torchrun.WORKER", ("-c", "import sys; sys.exit(3)"))
    with kept_signals():
        assert exit_code([*command(recipe, tmp_path, "mine"), "--nodes=1", "--rendezvous=nowhere:1"]) == 3


@pytest.mark.parametrize(
    ("end", "expected", "starts"),
    [("sys.exit(2)", 2, 1), ("sys.exit(3)", 3, 1), ("sys.exit(143)", 143, 4), ("os.abort()", 1, 4)],
)
def test_processes_are_started_again_on_a_node_of_several_unless_no_start_helps(
    end: str, expected: int, starts: int, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node has the exit code of the process that ended by itself."""
    from launch import torchrun as module

    program = (
        "import os, sys, time\n"
        f"if os.environ['RANK'] == '1': time.sleep(600)\n"
        f"open('{tmp_path}/starts', 'a').write('+')\n"
        f"{end}"
    )
    monkeypatch.setattr("finetune.torchrun.WORKER", ("-c", program))
    # The other node is missing, and torchrun does not wait for it.
    config: Any = module.LaunchConfig

    def alone(**options: Any) -> Any:
        return config(**options | {"min_nodes": 1, "max_nodes": 1})

    monkeypatch.setattr(module, "LaunchConfig", alone)
    several = ["--nodes=2", "--rendezvous=localhost:0"]
    with kept_signals():
        assert exit_code([*command(recipe, tmp_path, "mine"), *several]) == expected
    assert len((tmp_path / "starts").read_text()) == starts


@pytest.mark.parametrize(
    ("exit_codes", "expected"), [([143, -15], 143), ([0, 143], 143), ([143, 1], 1), ([143, -9], 1), ([], 143)]
)
def test_a_stopped_run_says_143_only_when_no_process_was_lost_before_it_saved(
    exit_codes: list[int], expected: int, recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing import PContext, SignalException

    from launch import torchrun as module

    def stop(*_: object) -> None:
        processes = {number: MagicMock(**{"proc.returncode": code}) for number, code in enumerate(exit_codes)}
        PContext.close(MagicMock(subprocess_handlers=processes))
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr(module, "elastic_launch", lambda *_: stop)
    assert main(command(recipe, tmp_path, "mine")) == expected


def exit_code(arguments: list[str]) -> int:
    """The exit code of the command, also when it ends in the middle of a launch."""
    try:
        return main(arguments)
    except SystemExit as end:
        return int(str(end.code))
