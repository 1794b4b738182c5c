"""How several nodes reach each other: what a run prints, and what it refuses."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from launches import local

from finetune.__main__ import main
from finetune.run import transport
from rehearsal.running_pods.tiny import make_recipe
from shared.errors import InputError
from shared.exit_codes import Exit

# Runs with eight MiB of memory that may be locked, as a container does by default.
LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_MEMLOCK, (8 * 2**20, 8 * 2**20))
from finetune.run import transport
transport.check_transport(Path(sys.argv[1]))
"""
# One of two processes, each on a node of its own.
NODE = """
import sys
import torch
import torch.distributed as dist
from finetune.run import transport
rank, meeting = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
line = transport.describe(torch.device("cpu"))
print(line if dist.get_rank() == 0 else "", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def cards(tmp_path: Path) -> Path:
    """A folder as the kernel shows it on an A4 node with RDMA."""
    for number in range(8):
        (tmp_path / f"mlx5_{number}").mkdir()
    return tmp_path


def expect_rdma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(transport.TRANSPORT, "rdma")


def test_a_pod_that_expects_tcp_needs_no_card(tmp_path: Path) -> None:
    transport.check_transport(tmp_path)


def test_a_pod_without_a_card_is_refused_where_rdma_is_expected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expect_rdma(monkeypatch)
    with pytest.raises(InputError, match="has no network card for it: the claim of the pod"):
        transport.check_transport(tmp_path / "missing")


def test_memory_that_cannot_be_locked_is_refused_where_rdma_is_expected(
    monkeypatch: pytest.MonkeyPatch, cards: Path
) -> None:
    expect_rdma(monkeypatch)
    process = subprocess.run(
        [sys.executable, "-c", LIMITED, str(cards)], capture_output=True, text=True, check=False
    )
    assert "InputError: transport is rdma, and the pod may lock 8192 KiB of memory" in process.stderr


def test_two_nodes_say_how_they_reach_each_other_and_how_fast(tmp_path: Path) -> None:
    def start(rank: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", NODE, str(rank), str(tmp_path / "meeting")]
        environment = {**os.environ, "LOCAL_WORLD_SIZE": "1"}
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    first, second = start(0), start(1)
    output, _ = first.communicate()
    second.communicate()
    line = r"^2 nodes: TCP, .* memory may be locked, all-reduce \d+\.\d GB/s$"
    assert re.search(line, output, re.MULTILINE)


def test_a_refused_run_ends_with_the_code_that_is_not_tried_again(
    tiny: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect_rdma(monkeypatch)
    monkeypatch.setattr(transport, "DEVICES", tmp_path / "missing")
    recipe = make_recipe(tmp_path / "recipe.yaml", tiny, "gemma-3-1b-emoji")
    assert main(local(recipe, tmp_path / "store", "mine")) == Exit.BAD_INPUT
    assert "error: transport is rdma, and the pod has no network card" in capsys.readouterr().err


def test_one_process_has_nobody_to_reach() -> None:
    assert transport.describe(torch.device("cpu")) is None
