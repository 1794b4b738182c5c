"""Fine-tunes tiny models and asks the results by transformers and peft. Runs in .venv-training.

python tuned.py DIRECTORY makes in the directory:

- hub/: the Hub's models and data sets, as `rehearsal.running_pods.tiny` makes them
- emoji/, sql/: a finished run of a recipe, with its adapter and its merged model
- gemma-4/: a finished run that has published only its adapter, of the model hub/gemma-4-31b
- adapters/RUN/: the adapter of a run, broken in three ways
- answers.json: prompts of the recipe's rows with the greedy answers, by run and by who answers
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workloads")]

# Recipe, model in the folder of the Hub, and learning rate. The second model also takes pictures.
RUNS = {"emoji": ("gemma-3-1b-emoji", "text-model", 0.005), "sql": ("gemma-3-4b-sql", "model", 0.02)}
# Enough to learn the few rows by heart, also where an answer ends. How a library rounds does not sway a model
# that knows its answer.
EPOCHS = 120
GEMMA_4 = "gemma-4"
# Enough that its adapter changes what the base gives.
EPOCHS_OF_GEMMA_4 = 20
WEIGHTS = "adapter_model.safetensors"
# A part of the names of an adapter's tensors, and by the run what stands there in an adapter that vLLM does
# not use. Without the part, vLLM uses an adapter of Gemma 4.
PART = "language_model."
OTHER_PARTS = {"sql": "", GEMMA_4: 2 * PART}
PROMPTS = 6
TOKENS = 24


def main(folder: Path) -> None:
    """Make everything, and print how the answers differ."""
    from finetune.__main__ import main as finetune
    from rehearsal.running_pods.tiny import (
        hide_progress_bars,
        make_data,
        make_hub,
        make_model,
        make_recipe,
        make_text_model,
        make_texts,
    )

    hide_progress_bars()
    hub = folder / "hub"
    make_data(hub / "data", rows=4)
    make_texts(hub, rows=40)
    make_model(hub / "model")
    make_text_model(hub / "text-model")
    make_hub(hub)
    answers = {}
    for name, (shipped, model, rate) in RUNS.items():
        changes = {"epochs": EPOCHS, "learning_rate": rate, "accumulation_steps": 1, "result": "model"}
        recipe = make_recipe(folder / f"{name}.yaml", hub, shipped, **changes)
        run = ["--storage", str(folder), "--run", name]
        if code := finetune(["local", "--recipe", str(recipe), *run]):
            raise SystemExit(code)
        answers[name] = asked(folder / name, hub / model, recipe)
    (folder / "answers.json").write_text(json.dumps(answers))
    train_gemma_4(folder)
    for name, other_part in OTHER_PARTS.items():
        break_adapter(folder / name / "adapter", folder / "adapters" / name, other_part)


def train_gemma_4(folder: Path) -> None:
    """A finished run of a tiny Gemma 4 that has published its adapter, and the model."""
    from finetune.__main__ import main as finetune
    from rehearsal.running_pods.tiny import make_recipe, make_tokenizer
    from rehearsal.running_pods.tiny_gemma_4 import OF_SERVERS, add_processor, make_gemma_4

    hub = folder / "hub"
    shipped, model = "gemma-4-31b-text-to-sql", hub / "gemma-4-31b"
    make_gemma_4("31B", make_tokenizer(), model, **OF_SERVERS)
    add_processor(model)
    changes = {
        "epochs": EPOCHS_OF_GEMMA_4,
        "learning_rate": 0.02,
        "accumulation_steps": 1,
        "result": "adapter",
    }
    recipe = make_recipe(folder / f"{GEMMA_4}.yaml", hub, shipped, **changes)
    if code := finetune(["local", "--recipe", str(recipe), "--storage", str(folder), "--run", GEMMA_4]):
        raise SystemExit(code)


def break_adapter(adapter: Path, target: Path, other_part: str) -> None:
    """Copies of an adapter: `zero` adds nothing, `prefix` has other names, `other` has other weights."""
    from safetensors.torch import load_file, save_file

    weights = load_file(adapter / WEIGHTS)
    signs = {name: -1 if ".lora_B." in name else 1 for name in weights}
    broken = {
        "zero": {name: weight * (signs[name] + 1) / 2 for name, weight in weights.items()},
        "prefix": {name.replace(PART, other_part): weight for name, weight in weights.items()},
        "other": {name: weight * signs[name] for name, weight in weights.items()},
    }
    for way, changed in broken.items():
        shutil.copytree(adapter, target / way)
        save_file(changed, target / way / WEIGHTS)


def asked(run: Path, base: Path, recipe: Path) -> dict[str, Any]:
    """Prompts of the recipe's rows and the answers: of the merged model, of the adapter, of the base."""
    from peft import PeftModel

    prompts = prompts_of(recipe)
    merged, bare = load(run / "model"), load(base)
    answers: dict[str, Any] = {"prompts": prompts}
    answers["merged"] = [answer(merged, run / "model", prompt) for prompt in prompts]
    answers["base"] = [answer(bare, base, prompt) for prompt in prompts]
    tuned = PeftModel.from_pretrained(bare, str(run / "adapter")).eval()
    answers["adapter"] = [answer(tuned, base, prompt) for prompt in prompts]
    return answers


def prompts_of(file: Path) -> list[str]:
    """The first messages of rows that the recipe trains on."""
    from finetune.rows.data import load_conversations
    from finetune.settings.recipe import load_recipe

    recipe = load_recipe(str(file))
    rows, _ = load_conversations(recipe.data, recipe.training.rows_seed)
    return [row["prompt"][0]["content"] for row in rows.select(range(PROMPTS))]


def load(folder: Path) -> Any:
    """A model in bf16, as the server loads it."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    pictures = (folder / "preprocessor_config.json").exists() or (folder / "processor_config.json").exists()
    kind = AutoModelForImageTextToText if pictures else AutoModelForCausalLM
    return kind.from_pretrained(folder, dtype=torch.bfloat16).eval()


def answer(model: Any, folder: Path, prompt: str) -> dict[str, Any]:
    """The greedy answer to a prompt, as text and as tokens."""
    from finetune.model.loading import load_processor

    tokenizer = load_processor(str(folder), pictures=False)
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    prompt_length = inputs["input_ids"].shape[1]
    reply = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)[0, prompt_length:]
    return {"text": tokenizer.decode(reply, skip_special_tokens=True), "tokens": reply.tolist()}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
