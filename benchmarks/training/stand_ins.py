"""Makes small models with random weights, and small data sets like those of three recipes."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset, Features, Image, Value
from PIL import Image as Picture
from transformers import AddedToken, AutoConfig, AutoModelForCausalLM, AutoProcessor, AutoTokenizer

from benchmarks.training.published import config_of
from finetune.settings.recipe import RECIPES, load_recipe
from finetune.settings.sections import Data
from rehearsal.running_pods import tiny

SEED = 3
# The vocabulary is a third of the weights, as in Gemma 3 1B. A picture is 256 patches and 64 tokens of text.
MID = {
    "vocab_size": 12_288,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 4096,
    "sliding_window": 512,
    "initializer_range": 0.02,
}
MID_VISION = {
    "hidden_size": 192,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "image_size": 224,
}
MID_PICTURE_TOKENS = 64
WORDS = tiny.WORDS.split()
SQL_WORDS = "CREATE TABLE TEXT SELECT FROM WHERE"
EMOJI: dict[str, str] = {word: chr(0x1F600 + number) for number, word in enumerate(WORDS)}


def make_models(path: Path) -> None:
    """Write `tiny-text`, `tiny-vision`, `mid-text` and `mid-vision` with their tokenizers or processors."""
    tiny.make_text_model(path / "small-text")
    tiny.make_model(path / "small-vision")
    for kind in ("text", "vision"):
        processor: Any = (AutoProcessor if kind == "vision" else AutoTokenizer).from_pretrained(
            path / f"small-{kind}"
        )
        tokenizer = getattr(processor, "tokenizer", processor)
        _teach_words(tokenizer)
        config: Any = AutoConfig.from_pretrained(path / f"small-{kind}")
        config.get_text_config().vocab_size = len(tokenizer)
        _save(config, processor, path / f"tiny-{kind}")
        _enlarge(config, processor)
        _save(config, processor, path / f"mid-{kind}")


def _teach_words(tokenizer: Any) -> None:
    """Add a token for each word of the rows and the prompts, which a large vocabulary would have."""
    texts = [SQL_WORDS]
    for recipe in RECIPES.glob("*.yaml"):
        texts += _prompts(load_recipe(recipe.stem).data)
    words = {*WORDS, *re.findall("[A-Za-z]+", " ".join(texts))}
    tokens = [*sorted(words), *EMOJI.values()]
    tokenizer.add_tokens(
        [AddedToken(token, single_word=token.isalpha(), lstrip=token.isalpha()) for token in tokens]
    )


def _prompts(data: Data) -> tuple[str, str]:
    return data.prompt, data.system or ""


def _enlarge(config: Any, processor: Any) -> None:
    for name, value in MID.items():
        setattr(config.get_text_config(), name, value)
    if not hasattr(config, "vision_config"):
        return
    for name, value in MID_VISION.items():
        setattr(config.vision_config, name, value)
    config.mm_tokens_per_image = MID_PICTURE_TOKENS
    _set_pictures(processor, MID_VISION["image_size"], MID_PICTURE_TOKENS)


def _set_pictures(processor: Any, side: int, tokens: int) -> None:
    """Make the processor resize pictures to `side` pixels and write so many tokens for one."""
    processor.image_seq_length = tokens
    processor.image_processor.size = {"height": side, "width": side}
    words = processor.tokenizer
    processor.full_image_sequence = f"\n\n{words.boi_token}{words.image_token * tokens}{words.eoi_token}\n\n"


def make_published_size(path: Path, words_of: Path, name: str) -> None:
    """Write a model of a published model's size with random weights in bf16, and another model's tokenizer.

    The weights are made on the GPU, since a CPU would take minutes.
    """
    small: Any = AutoConfig.from_pretrained(words_of)
    config = config_of(name)
    parts = [(config, small), (config.get_text_config(), small.get_text_config())]
    for part, small_part in parts:
        for token, number in small_part.to_dict().items():
            if token.endswith(("_token_id", "_token_index")):
                setattr(part, token, number)
    pictures = words_of.name.endswith("vision")
    processor: Any = (AutoProcessor if pictures else AutoTokenizer).from_pretrained(words_of)
    if pictures:
        _set_pictures(processor, config.vision_config.image_size, config.mm_tokens_per_image)
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    tokenizer = getattr(processor, "tokenizer", processor)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(["<eos>", "<end_of_turn>"])
    model.save_pretrained(path)
    processor.save_pretrained(path)


def _save(config: Any, processor: Any, path: Path) -> None:
    values = config.to_dict()
    for part in (values, values.get("text_config", {})):
        part.pop("layer_types", None)  # computed from the number of layers
    torch.manual_seed(SEED)
    AutoModelForCausalLM.from_config(type(config)(**values)).save_pretrained(path)
    processor.save_pretrained(path)


def make_data(path: Path, texts: int, pictures: int) -> None:
    """Write `emoji`, `sql` and `product`, with the columns of the real data sets.

    Args:
        texts: Rows of each of the first two.
        pictures: Rows of the last one. A thousand take twenty seconds.
    """
    for name, make, rows in (("emoji", _emoji, texts), ("sql", _sql, texts), ("product", _product, pictures)):
        (path / name).mkdir(parents=True)
        make(rows, random.Random(SEED)).to_parquet(path / name / "train.parquet")


def _words(chance: random.Random, fewest: int, most: int) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(fewest, most)))


def _table(rows: int, make: Callable[[], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make() for _ in range(rows)]


def _emoji(rows: int, chance: random.Random) -> Dataset:
    """Rows of about 50 tokens. The reply is an emoji for each of the first words."""

    def row() -> dict[str, Any]:
        text = _words(chance, 10, 60)
        return {
            "text": text,
            # With a token that was not added to the vocabulary. Added ones alone would be no reply.
            "emoji": "".join(EMOJI[word] for word in text.split()[: chance.randint(3, 8)]) + ".",
            "topic": "any",
        }

    return Dataset.from_list(_table(rows, row))


def _sql(rows: int, chance: random.Random) -> Dataset:
    """Rows of a schema of very different lengths, a short question, and a reply made from both."""

    def row() -> dict[str, Any]:
        table, column = chance.choice(WORDS), chance.choice(WORDS)
        others = ", ".join(f"{word} TEXT" for word in chance.choices(WORDS, k=chance.randint(2, 30)))
        return {
            "sql_context": f"CREATE TABLE {table} ({column} TEXT, {others})",
            "sql_prompt": f"the {column} of {table} for {_words(chance, 2, 8)}",
            "sql": f"SELECT {column} FROM {table} WHERE {column} = {_words(chance, 1, 20)};",
        }

    return Dataset.from_list(_table(rows, row))


def _product(rows: int, chance: random.Random) -> Dataset:
    """Rows of a picture, a name and a category. The reply repeats the name and goes on."""

    def row() -> dict[str, Any]:
        name = _words(chance, 3, 8)
        side = chance.randint(150, 300)
        return {
            "image": Picture.effect_noise((side, 200), chance.randint(20, 90)).convert("RGB"),
            "Product Name": name,
            "Category": _words(chance, 1, 4),
            "description": f"{name} {_words(chance, 10, 50)}.",
        }

    text = Value("string")
    features = Features({"image": Image(), "Product Name": text, "Category": text, "description": text})
    table = _table(rows, row)
    return Dataset.from_dict({name: [row[name] for row in table] for name in features}, features=features)
