"""Fine-tunes a tiny model to a finished run.

Call it as `python -m rehearsal.running_pods.tiny_run HUB RUN` in .venv-training.

HUB is a folder that `rehearsal.running_pods.tiny` has made. RUN is the folder of the new run.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workloads")]


def main(hub: Path, run: Path) -> int:
    """Fine-tune, and publish the merged model. Returns the trainer's exit code."""
    from finetune.__main__ import main as finetune
    from rehearsal.running_pods.tiny import hide_progress_bars, make_recipe

    hide_progress_bars()
    with tempfile.TemporaryDirectory() as folder:
        recipe = make_recipe(Path(folder) / "recipe.yaml", hub, "gemma-3-4b-sql", result="model")
        where = ["--storage", str(run.parent), "--run", run.name]
        return finetune(["local", "--recipe", str(recipe), *where])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
