"""FSDP2 on four Ray workers: shards within two nodes, and both nodes have all of them."""

import json
from functools import partial
from pathlib import Path

import faulty
import pytest
import ray
from launches import local
from outcomes import losses

from finetune.__main__ import main
from rehearsal.running_pods.tiny import make_recipe

TOLERANCE = 1e-5

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recipe(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One row per process and step, four steps on four processes, a checkpoint every two."""
    path = tmp_path_factory.mktemp("recipe") / "recipe.yaml"
    return make_recipe(path, tiny, batch_size=1, sharding="fsdp2")


@pytest.mark.parametrize("lora", ["lora.dropout=0", "lora=null"], ids=["adapter", "all weights"])
def test_workers_with_shards_lose_one_and_have_the_losses_of_one_process(
    recipe: Path, lora: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from finetune import ray_driver

    settings = [f"--set={lora}", "--set=training.learning_rate=0.001"]
    assert main([*local(recipe, tmp_path, "one"), *settings, "--set=training.batch_size=4"]) == 0
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "3").touch()
    monkeypatch.setattr(ray_driver, "train_on_worker", faulty.train_sharded_and_die)
    # A worker takes a core, of which a machine may have fewer.
    monkeypatch.setattr(ray, "init", partial(ray.init, num_cpus=4))
    try:
        assert main(["ray", *local(recipe, tmp_path, "mine")[1:], *settings, "--workers=4"]) == 0
    finally:
        ray.shutdown()
    assert not (tmp_path / "faults" / "3").exists()
    run = tmp_path / "mine"
    assert losses(run) == pytest.approx(losses(tmp_path / "one"), abs=TOLERANCE)
    newest = sorted(run.glob("checkpoint-*"))[-1]
    files = json.loads((newest / "COMPLETE.json").read_text())["files"]
    assert {f"rng_state_{rank}.pth" for rank in range(4)} <= files.keys()
    assert (run / ("adapter" if lora != "lora=null" else "model")).is_dir()
