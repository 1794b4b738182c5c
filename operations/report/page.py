"""The report as an HTML page."""

import math
from datetime import datetime
from pathlib import Path
from typing import Final

import jinja2
import yaml
from markupsafe import Markup

from operations.report.charts import chart
from operations.report.record import RunRecord

_TEMPLATE: Final = Path(__file__).with_name("page.html.j2")
# The charts by their titles, with the figures of the log that each shows by the name of the line.
_CHARTS: Final = {
    "Loss": {"training": "loss", "evaluation": "eval_loss"},
    "Pairs in which the preferred reply has the higher reward": {
        "training": "reward_accuracy",
        "evaluation": "eval_reward_accuracy",
    },
    "Margin of the rewards": {"training": "reward_margin", "evaluation": "eval_reward_margin"},
    "Learning rate": {"learning rate": "learning_rate"},
    "Gradient norm": {"gradient norm": "grad_norm"},
    "Tokens a second": {"tokens a second": "tokens_per_second"},
}
# Figures of the log whose names do not say what they are.
_NAMES: Final = {"eval_loss": "loss on held-out rows"}


def render(record: RunRecord, now: datetime) -> str:
    """The page of a run: one HTML text that needs no network.

    What models and rows wrote is escaped, and the page forbids scripts.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    progress = record.progress
    return environment.from_string(_TEMPLATE.read_text()).render(
        run=progress.run,
        state=progress.line(now),
        day=now.date().isoformat(),
        goodput=progress.goodput.line if progress.goodput else "",
        figures=_figures(record),
        charts=_charts(record),
        answers=record.answers,
        recipe=_yaml(record.recipe),
        origin=_yaml(record.origin),
    )


def _charts(record: RunRecord) -> list[Markup]:
    """The charts for which the log has figures. pygal escapes what it writes."""
    charts = []
    for title, names in _CHARTS.items():
        series = {
            name: [
                (line["step"], line[key])
                for line in record.lines
                if key in line and math.isfinite(line[key]) and line["step"] >= 0
            ]
            for name, key in names.items()
        }
        if drawn := {name: points for name, points in series.items() if points}:
            charts.append(Markup(chart(title, drawn)))
    return charts


def _figures(record: RunRecord) -> list[tuple[str, str, str]]:
    """Figures on held-out rows with their values before and after the training, empty if unknown."""
    progress = record.progress
    before, after = dict(progress.before), dict(progress.answers)
    for step, loss in progress.evaluations[:1]:
        before |= {} if step else {"eval_loss": loss}
    for step, loss in progress.evaluations[-1:]:
        after |= {"eval_loss": loss} if step else {}
    # Before the first step both are of the untrained model.
    after = {} if not after.get("step", 1) else after
    names = [name for name in {**before, **after} if name not in ("step", "judged")]
    return [
        (_NAMES.get(name, name.replace("_", " ")), _figure(before.get(name)), _figure(after.get(name)))
        for name in names
    ]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _yaml(tree: object) -> str:
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=True) if tree else ""
