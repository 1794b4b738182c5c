"""The library's trainer with figures of the rows alone, and a mixture of experts trained as it should be."""

from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from torch.utils.data import DataLoader
from trl import DPOConfig, SFTConfig, SFTTrainer

from finetune.model.all_weights import load_into
from finetune.model.loading import without_router_scores
from finetune.rows.tokens import NOT_TRAINED
from finetune.run.groups import GroupBatch, Groups, by_length, in_order
from finetune.settings.recipe import Recipe
from shared.errors import InputError

# What trl's loss needs to know of a mixture to balance its experts.
_COUNTS = ("num_experts", "num_experts_per_tok")


def balance_experts(arguments: SFTConfig | DPOConfig, model: Any, recipe: Recipe) -> None:
    """Decide whether a run trains the loss that balances the experts of a mixture, as trl does by default.

    An adapter trains without it, because the routers keep their weights. The coefficient is the published
    one, up to 0.9, so the loss would pull at the adapter and teach it nothing about the rows. Prints a line
    when all weights are trained without it. Raises InputError when the recipe asks for what trl cannot do.
    """
    config = model.config.get_text_config()
    wanted = arguments.router_aux_loss_coef
    if not getattr(config, "router_aux_loss_coef", None) and not wanted:
        return
    # Doge's configuration has a coefficient also where the model has no experts.
    has_none = getattr(config, "is_moe", None) is False
    if wanted is None and (recipe.lora or has_none):
        arguments.router_aux_loss_coef = 0.0
    elif wanted != 0 and (has_none or not all(getattr(config, name, None) for name in _COUNTS)):
        problem = f"trl cannot balance the experts of {type(model).__name__}"
        if wanted:
            raise InputError(f"training.trl.router_aux_loss_coef: {problem}; leave it out")
        arguments.router_aux_loss_coef = 0.0
        if arguments.process_index == 0:
            print(f"{problem}: they are trained by the rows alone", flush=True)


class RowTrainer(SFTTrainer):
    """Averages an evaluation over its reply tokens. The library averages over batches of any size.

    Figures have the loss of the rows alone. The balance of a mixture's experts is trained and not shown. It
    also resumes the training of all weights by the files' own names.
    """

    def __init__(self, *arguments: Any, **options: Any):
        model = options["model"]
        if model.base_model is model and hasattr(model, "model"):
            # Llama 4's text model names another part as its base than the trainer's loss needs.
            model.base_model_prefix = "model"
        super().__init__(*arguments, **options)
        # The trainer asks for the routers' scores in each step, and sets that they are always asked for.
        without_router_scores(self.model)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        """Load a checkpoint into the model."""
        if isinstance(self.model, PeftModel) or self.is_fsdp_enabled:
            super()._load_from_checkpoint(resume_from_checkpoint, model)
        else:
            load_into(self.model, Path(resume_from_checkpoint))

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Packs, or groups of rows of about one length that take no more memory than a training step."""
        rows: Any = self.eval_dataset if eval_dataset is None else eval_dataset
        arguments: Any = self.args
        if arguments.packing or rows is None:
            return super().get_eval_dataloader(eval_dataset)
        size, longest = arguments.per_device_train_batch_size, arguments.max_length
        if longest and "input_ids" in rows.column_names:
            groups = by_length([*map(len, rows["input_ids"])], size * longest)
        else:
            groups = in_order(len(rows), size)
        loader = DataLoader(
            Groups(rows, groups),
            collate_fn=GroupBatch(self.data_collator),
            num_workers=arguments.dataloader_num_workers,
            pin_memory=arguments.dataloader_pin_memory,
        )
        return self.accelerator.prepare(loader)

    def prediction_step(self, model: Any, inputs: Any, *more: Any, **options: Any) -> Any:
        """The library's step. It also keeps the sum of the losses and the number of tokens."""
        loss, *others = super().prediction_step(model, inputs, *more, **options)
        tokens = (inputs["labels"][:, 1:] != NOT_TRAINED).sum()
        self._scored.append(self.accelerator.gather_for_metrics(torch.stack([loss * tokens, tokens])[None]))
        return loss, *others

    def evaluation_loop(self, *arguments: Any, **options: Any) -> Any:
        """The library's loop, with these averages and without the balance of experts."""
        self._scored = list[torch.Tensor]()
        balances, self.aux_loss_enabled = self.aux_loss_enabled, False
        try:
            output: Any = super().evaluation_loop(*arguments, **options)
        finally:
            self.aux_loss_enabled = balances
        losses, tokens = torch.stack([scored.sum(0) for scored in self._scored]).cpu().unbind(1)
        output.metrics["eval_loss"] = float(losses.sum() / tokens.sum())
        accuracy = torch.tensor(self._metrics["eval"]["mean_token_accuracy"])
        self._metrics["eval"]["mean_token_accuracy"] = [float((accuracy * tokens).sum() / tokens.sum())]
        return output

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the loss of the rows, without the part that balances experts."""
        if "loss" in logs and (balance := self._metrics["train"].get("aux_loss")):
            logs["loss"] -= self.router_aux_loss_coef * sum(balance) / len(balance)
        super().log(logs, start_time)
