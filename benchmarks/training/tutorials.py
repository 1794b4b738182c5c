"""The tutorials' training on today's libraries, repaired only as far as it would not train otherwise.

- kept: batch size and accumulation, attention, precision, trained weights, tokens that count in the loss,
  padding, learning rate, schedule, the second <bos>. The loss comes from the model's own forward pass with
  all its logits, as in the versions of trl that the tutorials pin
- repaired in the data: the chat template, whole columns instead of their first characters, the mask of image
  tokens
- repaired for the device: fp16, whose loss on Gemma 3 is not a number. On a CPU also 4-bit weights and paged
  optimizers
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (
    AutoModelForCausalLM,
    AutoProcessor,
    AutoTokenizer,
    BitsAndBytesConfig,
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainingArguments,
)

from finetune.recipe import Recipe

IGNORED = -100
MAX_LENGTH = 512


def on_gpu() -> bool:
    return torch.cuda.is_available()


class Tutorial:
    """A tutorial's trainer over raw rows, and batches of test rows in which only the replies count."""

    def __init__(self, recipe: Recipe, rows: Dataset, test_rows: Dataset, workspace: Path):
        """The recipe gives both sides the same model, columns and text of the prompt."""
        self._recipe, self._rows, self._test_rows, self._workspace = recipe, rows, test_rows, workspace

    def trainer(self) -> Trainer:
        raise NotImplementedError

    def test_batches(self) -> Iterator[dict[str, Any]]:
        raise NotImplementedError

    def _prompt(self, row: dict[str, Any]) -> str:
        data = self._recipe.data
        return data.prompt.format(**{name: row[column] for name, column in data.fields.items()})

    def _base(self, quantized: bool, **options: Any) -> Any:
        dtype = torch.bfloat16 if on_gpu() else torch.float32
        if quantized and on_gpu():
            options["quantization_config"] = BitsAndBytesConfig(
                load_in_4bit=True,
                bnb_4bit_quant_type="nf4",
                bnb_4bit_use_double_quant=self._recipe.data.image is not None,
                bnb_4bit_compute_dtype=dtype,
            )
        return AutoModelForCausalLM.from_pretrained(self._recipe.model.name, dtype=dtype, **options)

    def _arguments(self, **options: Any) -> TrainingArguments:
        return TrainingArguments(
            output_dir=str(self._workspace),
            num_train_epochs=1,
            max_grad_norm=0.3,
            warmup_steps=0.03,
            bf16=on_gpu(),
            use_cpu=not on_gpu(),
            seed=42,
            dataloader_pin_memory=on_gpu(),
            remove_unused_columns=False,
            save_strategy="no",
            disable_tqdm=True,
            report_to="none",
            **options,
        )

    def _make(self, model: Any, arguments: TrainingArguments, rows: Any, collate: Any) -> Trainer:
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate)
        trainer.remove_callback(PrinterCallback)
        return trainer


class Text(Tutorial):
    """The common part of the tutorials on text. A row is one string, trained in full and padded."""

    def __init__(self, recipe: Recipe, rows: Dataset, test_rows: Dataset, workspace: Path):
        super().__init__(recipe, rows, test_rows, workspace)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(recipe.model.name)

    def _tokens(self) -> Dataset:
        texts = [
            self._tokenizer.apply_chat_template(self._messages(row), tokenize=False) for row in self._rows
        ]
        ids = self._tokenizer(texts, truncation=True, max_length=MAX_LENGTH)["input_ids"]
        return Dataset.from_dict({"input_ids": ids})

    def _messages(self, row: dict[str, Any]) -> list[dict[str, str]]:
        reply = row[self._recipe.data.reply]
        return [{"role": "user", "content": self._prompt(row)}, {"role": "assistant", "content": reply}]

    def _collator(self) -> DataCollatorForLanguageModeling:
        return DataCollatorForLanguageModeling(self._tokenizer, mlm=False)

    def test_batches(self) -> Iterator[dict[str, Any]]:
        for row in self._test_rows:
            messages = self._messages(row)
            template = self._tokenizer.apply_chat_template
            before = template(messages[:1], tokenize=False, add_generation_prompt=True)
            # Without the newline behind the end of the turn, which the model does not write.
            reply = template(messages, tokenize=False).removeprefix(before).rstrip()
            prompt, answer = (
                self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in (before, reply)
            )
            yield {
                "input_ids": torch.tensor([prompt + answer]),
                "labels": torch.tensor([[IGNORED] * len(prompt) + answer]),
            }


class Emoji(Text):
    """Tutorial 004: batches of one row, two batches a step."""

    def trainer(self) -> Trainer:
        model = self._base(quantized=True)
        if on_gpu():
            model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
        lora = LoraConfig(
            r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
        )
        arguments = self._arguments(
            per_device_train_batch_size=1,
            gradient_accumulation_steps=2,
            optim="paged_adamw_32bit" if on_gpu() else "adamw_torch",
            learning_rate=2e-4,
            weight_decay=0.001,
            train_sampling_strategy="group_by_length",
            lr_scheduler_type="cosine",
            logging_steps=5,
        )
        return self._make(get_peft_model(model, lora), arguments, self._tokens(), self._collator())


class Sql(Text):
    """Tutorial 003, one of its eight processes: batches of 8 rows, 8 batches a step, everything in fp32."""

    def trainer(self) -> Trainer:
        model = prepare_model_for_kbit_training(self._base(quantized=False, attn_implementation="eager"))
        lora = LoraConfig(
            r=16,
            lora_alpha=16,
            lora_dropout=0.05,
            target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
            task_type="CAUSAL_LM",
        )
        arguments = self._arguments(
            per_device_train_batch_size=8,
            gradient_accumulation_steps=8,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            optim="adamw_torch",
            learning_rate=1e-5,
            lr_scheduler_type="constant",
            logging_steps=10,
        )
        return self._make(get_peft_model(model, lora), arguments, self._tokens(), self._collator())


class Product(Tutorial):
    """Tutorial 000, one of 16 workers: batches of one row, 4 batches a step. It trains two vocabularies."""

    def __init__(self, recipe: Recipe, rows: Dataset, test_rows: Dataset, workspace: Path):
        super().__init__(recipe, rows, test_rows, workspace)
        self._processor: Any = AutoProcessor.from_pretrained(recipe.model.name)

    def trainer(self) -> Trainer:
        lora = LoraConfig(
            r=16,
            lora_alpha=16,
            lora_dropout=0.05,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
            modules_to_save=["lm_head", "embed_tokens"],
        )
        arguments = self._arguments(
            per_device_train_batch_size=1,
            gradient_accumulation_steps=4,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            optim="adamw_torch_fused",
            learning_rate=2e-4,
            lr_scheduler_type="constant",
            logging_steps=10,
        )
        model = self._base(quantized=True, attn_implementation="eager")
        if on_gpu():
            model = prepare_model_for_kbit_training(model)
        # The tutorial decodes pictures once and keeps them in memory.
        rows = list(self._rows)
        return self._make(get_peft_model(model, lora), arguments, rows, self._collate)

    def test_batches(self) -> Iterator[dict[str, Any]]:
        for row in self._test_rows:
            messages = self._messages(row)
            template = self._processor.apply_chat_template
            texts = [
                template(messages[:-1], tokenize=False, add_generation_prompt=True),
                template(messages, tokenize=False).rstrip(),
            ]
            prompt, whole = (
                self._processor(
                    text=text, images=[self._picture(row)], return_tensors="pt", add_special_tokens=False
                )
                for text in texts
            )
            labels = whole["input_ids"].clone()
            labels[:, : prompt["input_ids"].shape[1]] = IGNORED
            yield {**whole, "labels": labels}

    def _collate(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        texts = [self._processor.apply_chat_template(self._messages(row), tokenize=False) for row in rows]
        pictures = [[self._picture(row)] for row in rows]
        batch = self._processor(text=texts, images=pictures, return_tensors="pt", padding=True)
        labels = batch["input_ids"].clone()
        tokenizer = self._processor.tokenizer
        for token in (tokenizer.pad_token_id, tokenizer.boi_token_id, tokenizer.image_token_id):
            labels[labels == token] = IGNORED
        return {**batch, "labels": labels}

    def _messages(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"role": "system", "content": self._recipe.data.system},
            {
                "role": "user",
                "content": [{"type": "text", "text": self._prompt(row)}, {"type": "image"}],
            },
            {"role": "assistant", "content": row[self._recipe.data.reply]},
        ]

    def _picture(self, row: dict[str, Any]) -> Any:
        return row[str(self._recipe.data.image)].convert("RGB")
