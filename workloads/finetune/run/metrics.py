"""Progress of a run, as a line per logged step."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The state after a logged step. Loss, accuracy and gradient norm are averages since the last log.

    `seconds` is the wall time of the steps since the last log.
    """

    step: int
    steps: int
    epoch: float
    loss: float
    learning_rate: float
    grad_norm: float
    token_accuracy: float
    tokens_per_second: float
    seconds: float
    seconds_left: float

    def line(self) -> str:
        """The progress in a line for people."""
        left = int(self.seconds_left)
        return (
            f"step {self.step}/{self.steps} epoch {self.epoch:.2f} loss {self.loss:.4f} "
            f"lr {self.learning_rate:.2e} grad_norm {self.grad_norm:.3f} accuracy {self.token_accuracy:.3f} "
            f"tokens/s {self.tokens_per_second:.0f} left {left // 60}:{left % 60:02d}"
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Loss and accuracy on the test rows, averaged over their reply tokens."""

    step: int
    eval_loss: float
    eval_token_accuracy: float

    def line(self) -> str:
        """The evaluation in a line for people."""
        return (
            f"step {self.step} evaluation loss {self.eval_loss:.4f} accuracy {self.eval_token_accuracy:.3f}"
        )


@dataclass(frozen=True, kw_only=True)
class PairProgress(Progress):
    """Progress of a preference.

    `reward_accuracy` is the share of pairs in which the reply to prefer has the higher reward, and
    `reward_margin` by how much on average. A reward is beta times how much more probable the training made a
    reply.
    """

    reward_accuracy: float
    reward_margin: float

    def line(self) -> str:
        """The progress in a line for people."""
        return f"{super().line()} preferred {self.reward_accuracy:.3f} margin {self.reward_margin:.4f}"


@dataclass(frozen=True, kw_only=True)
class PairEvaluation(Evaluation):
    """The same on the held-out pairs."""

    eval_reward_accuracy: float
    eval_reward_margin: float

    def line(self) -> str:
        """The evaluation in a line for people."""
        return (
            f"{super().line()} preferred {self.eval_reward_accuracy:.3f} margin {self.eval_reward_margin:.4f}"
        )


# Names of the figures of a preference in the trainer's log.
_ACCURACY, _MARGIN = "rewards/accuracies", "rewards/margins"


class Pace:
    """Measures speed: tokens per second between logs, and the seconds that remain."""

    def __init__(self, step: int, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._first = self._last = clock()
        self._first_step = step
        self._tokens = 0.0

    def leave_out(self, seconds: float) -> None:
        """Leave `seconds` out of the speed, because they were not spent on training steps."""
        self._last += seconds

    def measure(self, step: int, steps: int, epoch: float, logs: Mapping[str, float]) -> Progress:
        """Turn the trainer's log into progress. Its `num_tokens` counts from the start of the process."""
        now = self._clock()
        seconds = now - self._last
        speed = (logs["num_tokens"] - self._tokens) / max(seconds, 1e-9)
        left = (steps - step) * (now - self._first) / max(step - self._first_step, 1)
        self._last, self._tokens = now, logs["num_tokens"]
        progress = Progress(
            step=step,
            steps=steps,
            epoch=epoch,
            loss=logs["loss"],
            learning_rate=logs["learning_rate"],
            grad_norm=logs["grad_norm"],
            token_accuracy=logs["mean_token_accuracy"],
            tokens_per_second=speed,
            seconds=seconds,
            seconds_left=left,
        )
        if _ACCURACY not in logs:
            return progress
        rewards = {"reward_accuracy": logs[_ACCURACY], "reward_margin": logs[_MARGIN]}
        return PairProgress(**asdict(progress), **rewards)


def last_evaluation(history: Iterable[Mapping[str, float]]) -> Evaluation | None:
    """The latest evaluation in the trainer's log, if there is one."""
    for logs in reversed([*history]):
        if "eval_loss" in logs:
            evaluation = Evaluation(
                step=int(logs["step"]),
                eval_loss=logs["eval_loss"],
                eval_token_accuracy=logs["eval_mean_token_accuracy"],
            )
            if f"eval_{_ACCURACY}" not in logs:
                return evaluation
            return PairEvaluation(
                **asdict(evaluation),
                eval_reward_accuracy=logs[f"eval_{_ACCURACY}"],
                eval_reward_margin=logs[f"eval_{_MARGIN}"],
            )
    return None
