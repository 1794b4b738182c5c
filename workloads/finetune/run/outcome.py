"""How far a run has come, and what its COMPLETE.json says of it."""

from dataclasses import asdict, dataclass
from typing import Any

from transformers import TrainerState

from finetune.run.driver import Request
from finetune.run.metrics import Evaluation, last_evaluation
from finetune.settings.recipe import Recipe
from finetune.storage.checkpoint import RunFolder

# Figures of the answers that are compared with those of the untrained model.
COMPARED = ("execution_accuracy", "overlap", "rouge_l", "exact", "eval_loss")


@dataclass(frozen=True)
class Outcome:
    """How far a run has come, in optimizer steps, and whether its time is up.

    `best` is the step whose weights count, and `evaluation` the evaluation of these.
    """

    step: int
    steps: int
    best: int
    evaluation: Evaluation | None
    finished: bool
    limit_reached: bool
    answers: dict[str, float] | None = None
    before: dict[str, float] | None = None


def outcome_of(state: TrainerState, request: Request = Request.CONTINUE) -> Outcome:
    """How far a run with this state has come, which ended at a request if there was one."""
    best = state.best_global_step or state.global_step
    return Outcome(
        step=state.global_step,
        steps=state.max_steps,
        best=best,
        evaluation=last_evaluation(logs for logs in state.log_history if logs["step"] <= best),
        # A run that ends sooner and was not asked to has stopped early.
        finished=state.global_step >= state.max_steps or request < Request.SAVE_AND_STOP,
        limit_reached=request == Request.STOP_AT_LIMIT,
    )


def summary_of(recipe: Recipe, run: RunFolder, outcome: Outcome, own_template: bool) -> dict[str, Any]:
    """The content of the run's COMPLETE.json. `own_template` if the result asks otherwise than its base."""
    return {
        "run": run.name,
        "steps": outcome.step,
        "base_model": recipe.model.name,
        "commits": recipe.commits,
        # A server of the adapter needs the chat template beside it.
        "own_template": own_template or recipe.model.chat_template is not None,
        "evaluation": asdict(outcome.evaluation) if outcome.evaluation else None,
        "answers": outcome.answers,
        "before": outcome.before,
        "gain": _gain(outcome),
        "not_good": recipe.evaluation.not_good(outcome.answers or {}, outcome.before),
    }


def _gain(outcome: Outcome) -> dict[str, float] | None:
    """By how much the training raised each figure that has a share of the rows, and the loss on them."""
    if not outcome.answers or not outcome.before:
        return None
    after = dict(outcome.answers)
    if outcome.evaluation:
        after["eval_loss"] = outcome.evaluation.eval_loss
    names = [name for name in after if name in COMPARED and name in outcome.before]
    return {name: after[name] - outcome.before[name] for name in names}
