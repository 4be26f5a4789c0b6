"""The development scores of task runs by epoch: has training converged, and which variant learns faster?"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmokit.analysis.axes import axis_note, axis_start
from elmokit.analysis.page import COLORS
from elmokit.analysis.report import Block, Chart, Report, Table
from elmokit.analysis.tasks.run_groups import TrainedRun, check_runs, group_runs, read_settings
from elmokit.errors import FormatError, InputError
from elmokit.recognize import TASK_RUN, mistaken
from elmokit.tasks.experiments.comparison import mean_text
from elmokit.training.log import RunLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RunCurve(TrainedRun):
    """Every evaluation of a finished run."""

    metric: str
    points: tuple[tuple[float, float], ...]
    """Epochs so far, including fractions, and the score on dev."""

    @property
    def best(self) -> tuple[float, float]:
        """The first of the best evaluations, whose model is kept."""
        return max(self.points, key=lambda point: point[1])


@dataclass(frozen=True)
class CurveGroup:
    """Runs that differ only in their seeds."""

    label: str
    metric: str
    curves: tuple[RunCurve, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        runs = [{"seed": curve.config.seed, "epochs_and_dev": [*map(list, curve.points)]} for curve in self.curves]
        return {"label": self.label, "task": self.curves[0].config.task, "metric": self.metric, "runs": runs}


def analyze_learning_curves(runs: Sequence[str | Path]) -> Report:
    """The development scores of task runs by epoch: has training converged, and which variant learns faster?

    Runs that differ only in their seed are grouped.

    Args:
        runs: Folders of finished task runs.
    """
    return learning_curves_report(group_curves([read_curve(path) for path in check_runs(runs)]))


def read_curve(path: Path) -> RunCurve:
    """The evaluations of a finished task run."""
    from elmokit.tasks.registry import TASKS

    if not (path / "result.json").is_file():
        if sentence := mistaken(path, "a finished run of a task", TASK_RUN):
            raise InputError(sentence)
        what = "does not exist" if not path.exists() else "holds no finished run"
        raise InputError(f"{path} {what}: give the folder of a run of `elmokit task train` that has ended.")
    try:
        result = json.loads((path / "result.json").read_text(encoding="utf-8"))
        config, bilm = read_settings(result)
        metric, num_examples = TASKS[config.task].metric, int(result["examples"]["train"])
        log, key = RunLog(path / "log.jsonl").read(), f"heldout_{metric}"
        points = tuple((entry["count"] / num_examples, float(entry[key])) for entry in log if key in entry)
    except (OSError, ValueError, TypeError, KeyError, ZeroDivisionError) as error:
        raise FormatError(
            f"{path} is not the folder of a task's run ({type(error).__name__}: {str(error)[:80]}): give what "
            "`elmokit task train` wrote."
        ) from None
    if not points:
        raise FormatError(f"{path} has no evaluation in log.jsonl: give a run with its whole log.")
    return RunCurve(path, config, bilm, metric, points)


def group_curves(curves: Sequence[RunCurve]) -> list[CurveGroup]:
    """Runs grouped by settings, in the given order."""
    return [CurveGroup(label, own[0].metric, tuple(own)) for label, own in group_runs(curves)]


def learning_curves_report(groups: Sequence[CurveGroup]) -> Report:
    """One plot per task, and a table: the best score, its epoch, and the length of training."""
    rows = []
    for group in groups:
        bests = [curve.best for curve in group.curves]
        last = [curve.points[-1][0] for curve in group.curves]
        cells = (mean_text([score for _, score in bests]), mean_text([epoch for epoch, _ in bests]), mean_text(last))
        rows.append((group.label, len(bests), *cells))
    header = ("runs", "seeds", "best dev score", "after epochs", "trained for epochs")
    by_task: dict[str, list[CurveGroup]] = {}
    for group in groups:
        by_task.setdefault(group.curves[0].config.task, []).append(group)
    blocks: list[Block] = [Table("Best evaluations", header, tuple(rows))]
    blocks += [chart_curves(task, own) for task, own in by_task.items()]
    return Report("Learning curves", tuple(blocks), {"groups": [group.to_dict() for group in groups]})


def chart_curves(task: str, groups: Sequence[CurveGroup]) -> Chart:
    """All runs of a task, with one color per group."""
    metric = groups[0].metric
    start = axis_start(score for group in groups for curve in group.curves for _, score in curve.points)
    caption = (
        f"{task}: {metric} on the development set by epoch. Each line is one seed; its dot is the best evaluation, "
        f"whose model was kept.{axis_note(start)}"
    )
    draw = partial(_draw, groups=groups, start=start)
    return Chart(f"learning-curves-{task}", f"Learning curves: {task}", caption, draw)


def _draw(figure: "Figure", *, groups: Sequence[CurveGroup], start: float) -> None:
    axes = figure.subplots()
    for number, group in enumerate(groups):
        color = COLORS[number % len(COLORS)]
        for curve in group.curves:
            label = group.label if curve is group.curves[0] else None
            axes.plot(*zip(*curve.points, strict=True), color=color, linewidth=1.2, alpha=0.8, label=label)
            axes.plot(*curve.best, "o", color=color)
    axes.plot([], [], "o", color="#444444", label="best evaluation of a seed")
    axes.set(xlabel="epochs", ylabel=f"{groups[0].metric} on the development set")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=start)
    axes.locator_params(axis="x", integer=True)
    axes.legend(frameon=False)
