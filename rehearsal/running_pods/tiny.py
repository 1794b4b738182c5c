"""Makes tiny models of Gemma 3's architecture and tiny data sets, without the hub.

Like the real one, the tokenizer has Gemma's special tokens and adds <bos> by itself. The chat template
behaves like Gemma 3's. It writes <bos>, folds the system message into the first user turn, and calls the
assistant "model".
"""

import json
import random
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rehearsal.running_pods.tiny_gemma_4 import make_gemma_4

if TYPE_CHECKING:
    from finetune.settings.recipe import Recipe

SPECIAL_TOKENS = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<unk>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<start_of_image>",
    "<end_of_image>",
    "<image_soft_token>",
]
IMAGE_SIDE, PATCH_SIDE, TOKENS_PER_IMAGE = 28, 14, 4

CHAT_TEMPLATE = """
{%- macro text(content) -%}
    {%- if content is string -%}{{ content | trim }}{%- else -%}
    {%- for part in content -%}
        {%- if part.type == 'image' -%}<start_of_image>{%- else -%}{{ part.text | trim }}{%- endif -%}
    {%- endfor -%}{%- endif -%}
{%- endmacro -%}
{{- bos_token -}}
{%- set system = messages[0] if messages[0].role == 'system' else none -%}
{%- for message in (messages[1:] if system else messages) -%}
    {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}
    {%- if loop.first and system -%}{{- text(system.content) + '\\n\\n' -}}{%- endif -%}
    {{- text(message.content) + '<end_of_turn>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}
"""

EMOJI = "🍌🤔😋🥣🌞🌧🐱🐶🎉🚗"

WORDS = (
    "soft bright steel wool lamp kettle scarf chair desk cable garden kitchen gift light warm quiet with "
    "for and the in of a new best ideal home travel colour red blue"
)


def make_data(path: Path, rows: int = 16) -> None:
    """Writes Parquet with the columns of the product data set, unequal replies and pictures of every mode."""
    from datasets import Dataset, Features, Image, Value
    from PIL import Image as Picture

    chance = random.Random(7)

    def say(count: int) -> str:
        return " ".join(chance.choices(WORDS.split(), k=count))

    columns: dict[str, list[Any]] = {"image": [], "Product Name": [], "Category": [], "description": []}
    for row in range(rows):
        picture = Picture.effect_noise((30 + row, 40), 60 + row).convert(("RGB", "RGBA", "P", "L")[row % 4])
        columns["image"].append(picture)
        columns["Product Name"].append(f"{say(3)} {row}")
        columns["Category"].append(say(2))
        columns["description"].append(say(2 + 3 * (row % 5)))
    text = Value("string")
    features = Features({"image": Image(), "Product Name": text, "Category": text, "description": text})
    path.mkdir(parents=True)
    Dataset.from_dict(columns, features=features).to_parquet(path / "train.parquet")


def make_texts(path: Path, rows: int = 40) -> None:
    """Writes Parquet with the columns of the emoji and both SQL data sets, unequal texts and replies."""
    from datasets import Dataset

    chance = random.Random(5)

    def say(count: int) -> str:
        return " ".join(chance.choices(WORDS.split(), k=count))

    tables = [
        {
            "text": f"{say(1 + row % 7)} {row}",
            "emoji": "".join(chance.choices(EMOJI, k=1 + row % 4)),
            "topic": "food",
        }
        for row in range(rows)
    ]
    queries = [
        {
            "id": row,
            "domain": "retail",
            "sql_prompt": f"{say(2 + row % 5)} {row}",
            "sql_context": f"CREATE TABLE {say(1)} ({say(1 + row % 6)})",
            "sql": f"SELECT {say(1 + row % 4)} FROM {say(1)};",
        }
        for row in range(rows)
    ]
    for query in queries:
        query |= {"question": query["sql_prompt"], "context": query["sql_context"], "answer": query["sql"]}
    for name, columns in (("emoji", tables), ("sql", queries)):
        (path / name).mkdir(parents=True)
        Dataset.from_list(columns).to_parquet(path / name / "train.parquet")


def make_text_model(path: Path) -> None:
    """A Gemma 3 text model of about 90,000 random weights, with its tokenizer: the 1B is of this kind."""
    import torch
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    tokenizer = make_tokenizer()
    torch.manual_seed(13)
    model = Gemma3ForCausalLM(Gemma3TextConfig(**_text_config(tokenizer)))
    _save_as_published(model, tokenizer, path)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(path)


def make_model(path: Path) -> None:
    """A Gemma 3 vision model of about 150,000 random weights, with its processor."""
    import torch
    from transformers import (
        Gemma3Config,
        Gemma3ForConditionalGeneration,
        Gemma3ImageProcessor,
        Gemma3Processor,
    )

    tokenizer = make_tokenizer()
    token = tokenizer.convert_tokens_to_ids
    torch.manual_seed(11)
    config = Gemma3Config(
        text_config=_text_config(tokenizer),
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": IMAGE_SIDE,
            "patch_size": PATCH_SIDE,
        },
        mm_tokens_per_image=TOKENS_PER_IMAGE,
        boi_token_index=token("<start_of_image>"),
        eoi_token_index=token("<end_of_image>"),
        image_token_index=token("<image_soft_token>"),
    )
    _save_as_published(Gemma3ForConditionalGeneration(config), tokenizer, path)
    _name_as_published(path / "model.safetensors")
    pictures = Gemma3ImageProcessor(size={"height": IMAGE_SIDE, "width": IMAGE_SIDE})
    Gemma3Processor(
        image_processor=pictures,
        tokenizer=tokenizer,
        chat_template=CHAT_TEMPLATE,
        image_seq_length=TOKENS_PER_IMAGE,
    ).save_pretrained(path)


def make_base_models(path: Path) -> None:
    """Base models of Gemma 2 and, from `model` in the folder, of Gemma 3: neither has a chat template."""
    import torch
    from transformers import Gemma2Config, Gemma2ForCausalLM

    tokenizer = make_tokenizer()
    torch.manual_seed(17)
    model = Gemma2ForCausalLM(Gemma2Config(**_text_config(tokenizer)))
    # Where a text ends.
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(path / "gemma-2-2b")
    tokenizer.save_pretrained(path / "gemma-2-2b")
    base = path / "gemma-3-12b-pt"
    shutil.copytree(path / "model", base)
    (base / "chat_template.jinja").unlink()
    settings = json.loads((base / "generation_config.json").read_text())
    (base / "generation_config.json").write_text(json.dumps(settings | {"eos_token_id": 1}))


# Model and data in place of a shipped recipe's, and a length that holds two rows or more.
STAND_INS = {
    "gemma-3-4b-vision": ("model", "data", None),
    "gemma-3-1b-emoji": ("text-model", "emoji", 200),
    "gemma-3-12b-text-to-sql": ("model", "sql", 500),
    "gemma-3-12b-text-to-sql-full": ("model", "sql", 500),
    "gemma-3-12b-pt-text-to-sql": ("gemma-3-12b-pt", "sql", 500),
    "gemma-3-4b-sql": ("model", "sql", 450),
    "gemma-2-2b-sql": ("gemma-2-2b", "sql", 450),
    "gemma-4-31b-text-to-sql": ("gemma-4-31b", "sql", 500),
    "gemma-4-e2b-emoji": ("gemma-4-e2b", "emoji", 200),
}


def make_recipe(path: Path, tiny: Path, shipped: str = "gemma-3-4b-vision", **training: Any) -> Path:
    """A shipped recipe with the tiny model and data, in fp32 on plain weights, unless changed.

    The process that trains prepares its batches itself: a loader process takes longer to start than the rows.
    The recipe with pictures has eight steps of two rows. Text recipes have 24 rows, and 6 for the evaluation.
    """
    from finetune.settings.recipe import RECIPES

    recipe = yaml.safe_load((RECIPES / f"{shipped}.yaml").read_text())
    model, data, tokens = STAND_INS[shipped]
    recipe["model"] |= {"name": str(tiny / model), "quantization": "none", "precision": "fp32"}
    # Shipped recipes have no dropout. With it, a resumed run must draw the masks of an uninterrupted one.
    if recipe.get("lora"):
        recipe["lora"]["dropout"] = 0.05
    recipe["data"] |= {"name": str(tiny / data), "test_rows": 0}
    # A test that wants answers asks for them.
    recipe.pop("evaluation", None)
    if not recipe["data"].get("image"):
        recipe["data"] |= {"rows": 24, "test_rows": 6}
        recipe["training"] |= {"max_length": tokens, "sharding": "none"}
    recipe["training"] |= {
        "epochs": 1,
        "batch_size": 2,
        "loader_processes": 0,
        "learning_rate": 0.005,
        "log_every_steps": 1,
        "save_every_steps": 2,
    }
    recipe["training"] |= training
    path.write_text(yaml.safe_dump(recipe))
    return path


def make_trainer(recipe: "Recipe", path: Path) -> Any:
    """The trainer of a recipe over its rows, with `path` as working directory."""
    from finetune.rows.data import load_conversations
    from finetune.run.training import build_trainer, sft_arguments

    rows, test_rows = load_conversations(recipe.data, recipe.training.rows_seed)
    return build_trainer(recipe, sft_arguments(recipe, path / "work"), rows, test_rows, [])


def _text_config(tokenizer: Any) -> dict[str, Any]:
    token = tokenizer.convert_tokens_to_ids
    return {
        "vocab_size": len(tokenizer),
        # Multiples of 64, the block size of 4-bit weights on newer CPUs.
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 32768,  # as the 1B. A server refuses a longer request than this
        # Large enough that answers are not uniform and a lost update shows in the loss.
        "initializer_range": 0.2,
        # One layer of each kind of Gemma 3. The second has no window, and could attend to a whole pack.
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 64,
        "bos_token_id": token("<bos>"),
        "eos_token_id": token("<eos>"),
        "pad_token_id": token("<pad>"),
    }


def _save_as_published(model: Any, tokenizer: Any, path: Path) -> None:
    """Save the model with the end of a turn as a stop token, as in Gemma's generation_config.json."""
    model.generation_config.eos_token_id = [
        tokenizer.convert_tokens_to_ids(name) for name in ("<eos>", "<end_of_turn>")
    ]
    model.save_pretrained(path)


def _name_as_published(file: Path) -> None:
    """Give the weights for pictures the names of the published model, by which vLLM knows them.

    transformers keeps the names of a model that it has loaded. A new model gets shorter names.
    """
    from safetensors.torch import load_file, save_file

    new, published = "vision_tower.", "vision_tower.vision_model."
    weights = {name.replace(new, published): tensor for name, tensor in load_file(file).items()}
    save_file(weights, file, metadata={"format": "pt"})


def make_tokenizer() -> Any:
    """The tokenizer of both models."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=365,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS] * 20, trainer)
    # As in Gemma's vocabulary, where vLLM looks them up for a model that takes pictures.
    tokenizer.add_tokens([AddedToken("\n" * count, normalized=False) for count in (1, 2, 3, 4)])
    bos = ("<bos>", tokenizer.token_to_id("<bos>"))
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[bos])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        padding_side="left",
        model_max_length=8192,
        extra_special_tokens={
            "image_token": "<image_soft_token>",
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
        },
    )


def make_hub(path: Path) -> None:
    """Makes all repositories that the shipped recipes name, `models/ORG/NAME` and `datasets/ORG/NAME`."""
    from finetune.settings.recipe import RECIPES

    for shipped, (model, data, _) in STAND_INS.items():
        recipe = yaml.safe_load((RECIPES / f"{shipped}.yaml").read_text())
        for kind, name, target in (
            ("models", recipe["model"]["name"], model),
            ("datasets", recipe["data"]["name"], data),
        ):
            (path / kind / name).parent.mkdir(parents=True, exist_ok=True)
            (path / kind / name).unlink(missing_ok=True)
            (path / kind / name).symlink_to(path / target)


def hide_progress_bars() -> None:
    """Turns off the libraries' progress bars. Models this small do not need them."""
    import datasets
    from transformers.utils import logging

    datasets.disable_progress_bars()
    logging.disable_progress_bar()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.path.insert(0, str(Path(__file__).parents[2] / "workloads"))
    hide_progress_bars()
    make_data(folder / "data", rows=20)
    make_texts(folder, rows=128)
    make_model(folder / "model")
    make_text_model(folder / "text-model")
    make_base_models(folder)
    for size in ("E2B", "31B"):
        make_gemma_4(size, make_tokenizer(), folder / f"gemma-4-{size.lower()}")
    make_hub(folder)
