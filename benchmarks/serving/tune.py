"""Fine-tunes a tiny model. Runs in .venv-training.

python -m benchmarks.serving.tune DIRECTORY makes the base in DIRECTORY/text-model and the finished run in
DIRECTORY/run, with its adapter and its merged model.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workloads")]


def main(folder: Path) -> None:
    """Makes the models."""
    from finetune.__main__ import main as finetune
    from rehearsal.running_pods.tiny import (
        hide_progress_bars,
        make_hub,
        make_recipe,
        make_text_model,
        make_texts,
    )

    hide_progress_bars()
    make_texts(folder)
    make_text_model(folder / "text-model")
    make_hub(folder)
    changes = {"epochs": 1, "accumulation_steps": 1, "result": "model"}
    recipe = make_recipe(folder / "emoji.yaml", folder, "gemma-3-1b-emoji", **changes)
    run = ["--storage", str(folder), "--run", "run"]
    if code := finetune(["local", "--recipe", str(recipe), *run]):
        raise SystemExit(code)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
