"""Scores by share of the training data, with and without ELMo: the paper's Figure 1.

The curves answer two questions: after how many epochs ELMo exceeds the baseline's best score, and with how much of the
data it equals the baseline on all of the data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from elmokit.analysis.axes import axis_note, axis_start
from elmokit.analysis.page import COLORS
from elmokit.analysis.report import Cell, Chart, Report, Table
from elmokit.analysis.tasks.learning_curves import read_curve
from elmokit.analysis.tasks.variants import check_varied
from elmokit.arguments import shown
from elmokit.errors import ConfigError
from elmokit.progress import ProgressCallback
from elmokit.tasks.config import TaskConfig
from elmokit.tasks.experiments.comparison import P_TEXT, Comparison, compare, deviation, mean_text, p_text, setting_text
from elmokit.tasks.experiments.variants import BASELINE, Done, Experiment, Runs, Variant, run_all
from elmokit.tasks.subsets import share_size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRACTIONS = (0.001, 0.01, 0.1, 0.5, 1.0)
LEAST_STEPS = 1000
VARIED = ("train_fraction",)
"""Settings that the analysis varies."""
_LEGEND = (
    "The bands are one standard deviation over seeds up and down, the dotted line is the baseline on the largest "
    "share. The horizontal axis is logarithmic."
)


class DataNeeded(NamedTuple):
    """The share of the training data that is needed to reach a score."""

    share: float | None
    """None if no tested share reaches the score."""
    is_bound: bool = False
    """Whether the smallest tested share reaches it, so that less may be enough."""


class EpochsToBaseline(NamedTuple):
    """The epochs until the baseline's best score on dev, for one seed."""

    best: float
    """The baseline's best score."""
    baseline: float
    """Epochs until the baseline reaches it."""
    elmo: float | None
    """Epochs until ELMo exceeds it; None if it never does."""


@dataclass(frozen=True)
class Point:
    """Baseline and ELMo on one share of the training data."""

    share: float
    num_examples: int
    scores: Comparison
    races: tuple[EpochsToBaseline, ...]
    """One per seed."""


@dataclass(frozen=True)
class Curve:
    """Baseline and ELMo on increasing shares."""

    task: str
    metric: str
    points: tuple[Point, ...]

    @property
    def needs(self) -> tuple[DataNeeded, ...]:
        """How much data ELMo needs to equal the baseline on each share."""
        shares = [point.share for point in self.points]
        elmo = [fmean(point.scores.others[0].test) for point in self.points]
        return tuple(find_need(shares, elmo, fmean(point.scores.baseline.test)) for point in self.points)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        points = [
            {
                "share": point.share,
                "num_examples": point.num_examples,
                **point.scores.to_dict(),
                "epochs": [race._asdict() for race in point.races],
                "elmo_needs": need._asdict(),
            }
            for point, need in zip(self.points, self.needs, strict=True)
        ]
        return {"task": self.task, "metric": self.metric, "points": points}


def analyze_sample_efficiency(
    experiment: Experiment,
    model: str,
    *,
    fractions: Sequence[float] = FRACTIONS,
    least_steps: int = LEAST_STEPS,
    on_embedding: ProgressCallback | None = None,
    on_run: Done | None = None,
) -> Report:
    """A task on growing fractions of its training data, with and without ELMo (Figure 1 of the paper).

    Every variant is trained with every seed, in parallel processes. Finished runs in the experiment's folder are kept.

    Args:
        experiment: The task, its files and what else the variants share.
        model: The biLM for ELMo.
        fractions: Fractions of the training examples, above 0 and up to 1.
        least_steps: Steps allowed on a small fraction, but never more than on the full data.
        on_embedding: Receives how many sentences of how many are embedded.
        on_run: Receives each run that has ended.
    """
    shares = sorted(map(float, fractions))
    if not shares or not all(0 < share <= 1 for share in shares) or len(set(shares)) < len(shares):
        raise ConfigError(f"fractions ({shown(fractions)}) must be distinct numbers above 0 and up to 1.")
    check_varied(experiment, VARIED)
    pairs = share_variants(experiment, model, shares, least_steps=least_steps)
    runs = run_all(experiment, [variant for pair in pairs for variant in pair], embedding=on_embedding, done=on_run)
    return report_curve(find_curve(runs, pairs), runs, least_steps=least_steps)


def share_variants(
    experiment: Experiment, bilm: str, shares: Sequence[float], *, least_steps: int = LEAST_STEPS
) -> list[tuple[Variant, Variant]]:
    """The baseline and ELMo for each share of the training data, with equal numbers of steps.

    Args:
        experiment: the task and its data.
        bilm: the biLM for ELMo.
        shares: shares of the training examples.
        least_steps: a run on a small share makes more passes, so that it may take this number of steps.
    """
    config, num_all = experiment.config(), len(experiment.read_sets()["train"])
    pairs = []
    for share in shares:
        budget = find_budget(config, num_all, share_size(num_all, share), least_steps)
        changes = (("train_fraction", f"{share!r}"), *budget)
        pairs.append(
            (
                Variant(f"baseline-{share:.15g}", "baseline", (*BASELINE.changes, *changes)),
                Variant(f"elmo-{share:.15g}", "+ ELMo", changes, bilm),
            )
        )
    return pairs


def find_budget(config: TaskConfig, num_all: int, num_part: int, least_steps: int) -> tuple[tuple[str, str], ...]:
    """Settings that give a run on a subset enough steps, and as many evaluations on dev as a run on all examples.

    Without them, patience would stop a run on a small subset before anything is learned. The settings for all examples
    do not change, and no subset gets more steps than all examples.
    """
    if num_part == num_all:
        return ()
    accumulate, num_epochs = config.loop.accumulate, config.num_epochs

    def steps(num_examples: int) -> int:
        """Number of steps of all epochs."""
        return max(1, max(1, num_examples // config.batch_size) * num_epochs // accumulate)

    most = config.loop.max_steps or math.inf
    whole = min(most, steps(num_all))
    goal = max(min(most, steps(num_part)), min(least_steps, whole))
    looks = whole // config.loop.evaluate_every if config.loop.evaluate_every else num_epochs
    changes: dict[str, int] = {}
    if goal > steps(num_part):
        changes["num_epochs"] = math.ceil(goal * accumulate / max(1, num_part // config.batch_size))
    if changes or config.loop.evaluate_every:
        changes["loop.evaluate_every"] = math.ceil(goal / max(1, looks))
    return tuple((name, str(value)) for name, value in changes.items())


def find_curve(runs: Runs, pairs: Sequence[tuple[Variant, Variant]]) -> Curve:
    """The results of the runs, by share, smallest first."""
    experiment = runs.experiment
    points = []
    for baseline, elmo in pairs:
        first = runs.results[baseline.name][0]
        races = tuple(_race(runs, baseline, elmo, seed) for seed in experiment.seeds)
        share = float(first["config"]["train_fraction"])
        points.append(Point(share, first["examples"]["train"], compare(runs, baseline, [elmo]), races))
    points.sort(key=lambda point: point.share)
    return Curve(experiment.task.name, experiment.task.metric, tuple(points))


def find_need(shares: Sequence[float], scores: Sequence[float], goal: float) -> DataNeeded:
    """The smallest share with which a curve reaches a score, by linear interpolation over log(share).

    Args:
        shares: shares in increasing order.
        scores: one score per share; they need not increase.
        goal: the score to reach.
    """
    if scores[0] >= goal:
        return DataNeeded(shares[0], is_bound=True)
    for number in range(1, len(shares)):
        low, high = scores[number - 1], scores[number]
        if high >= goal:
            way = (goal - low) / (high - low)
            return DataNeeded(math.exp((1 - way) * math.log(shares[number - 1]) + way * math.log(shares[number])))
    return DataNeeded(None)


def find_race(baseline: Sequence[tuple[float, float]], elmo: Sequence[tuple[float, float]]) -> EpochsToBaseline:
    """The epochs until the baseline's best score, from epochs and dev scores of all evaluations of both runs."""
    best = max(score for _, score in baseline)
    passed = next((epoch for epoch, score in elmo if score > best), None)
    return EpochsToBaseline(best, next(epoch for epoch, score in baseline if score == best), passed)


def _race(runs: Runs, baseline: Variant, elmo: Variant, seed: int) -> EpochsToBaseline:
    """The same for one seed, from the logs of its two runs."""
    first, second = (read_curve(runs.experiment.folder(variant, seed)).points for variant in (baseline, elmo))
    return find_race(first, second)


def report_curve(curve: Curve, runs: Runs, *, least_steps: int = LEAST_STEPS) -> Report:
    """The curve with its bands, a table, and a summary in words."""
    rows: list[tuple[Cell, ...]] = []
    for point, need in zip(curve.points, curve.needs, strict=True):
        baseline, elmo = point.scores.baseline, point.scores.others[0]
        sides = (mean_text(baseline.test), mean_text(elmo.test))
        gain = (f"{point.scores.increase(elmo):+.2f}", p_text(elmo.p))
        rows.append((_percent(point.share), point.num_examples, *sides, *gain, _need_text(need)))
    header = ("share", "examples", "baseline", "+ ELMo", "increase", "p", "ELMo needs for the baseline's score")
    statements = {"epochs": say_epochs(curve), "data": say_data(curve)}
    return Report(
        f"Sample efficiency: {curve.task}",
        (
            setting_text(runs),
            Table(f"Test {curve.metric} by share of the training data", header, tuple(rows)),
            chart_curve(curve),
            *statements.values(),
            f"{P_TEXT} Every seed draws its own examples, the same with and without ELMo; a smaller share is a "
            f"subset of a larger one. A run on a small share may take {least_steps:,} steps, but no more than a run on "
            "all examples, and is evaluated on dev as often.",
        ),
        {**curve.to_dict(), "statements": statements, "least_steps": least_steps, "setting": runs.setting()},
    )


def say_epochs(curve: Curve) -> str:
    """The epochs until the baseline's best score, and until ELMo exceeds it, on the largest share."""
    last = curve.points[-1]
    best, epochs = fmean(race.best for race in last.races), [race.baseline for race in last.races]
    passed = [race.elmo for race in last.races if race.elmo is not None]
    text = (
        f"On {_percent(last.share)} of the training data the baseline is at its best dev {curve.metric} ({best:.2f}) "
        f"after {_epochs(epochs)}; with ELMo "
    )
    if not passed:
        text += "it is never passed"
    else:
        text += f"it is passed after {_epochs(passed)}"
        if len(passed) < len(last.races):
            text += f", but only in {len(passed)} of {len(last.races)} seeds"
    return f"{text}. The paper, SRL: 486 epochs without ELMo, 10 with it."


def say_data(curve: Curve) -> str:
    """How much data ELMo needs to equal the baseline on the largest share."""
    last, need = curve.points[-1], curve.needs[-1]
    goal = f"the baseline's test {curve.metric} on {_percent(last.share)} ({fmean(last.scores.baseline.test):.2f})"
    if need.share is None:
        text = f"With ELMo {goal} is not reached on any share"
    elif need.is_bound:
        text = f"With ELMo {goal} is reached on the smallest share already, {_percent(need.share)} of the training data"
    else:
        text = f"With ELMo {goal} is reached on {_percent(need.share)} of the training data, between the points"
    return f"{text}. The paper, SRL: 1% of the data with ELMo equals 10% without."


def _epochs(numbers: Sequence[float]) -> str:
    each = f" ({', '.join(f'{number:.3g}' for number in numbers)})" if len(numbers) > 1 else ""
    mean = f"{fmean(numbers):.3g}"
    return f"{mean} epoch{'' if mean == '1' else 's'}{each}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


def _need_text(need: DataNeeded) -> str:
    if need.share is None:
        return "not reached"
    return f"at most {_percent(need.share)}" if need.is_bound else _percent(need.share)


def chart_curve(curve: Curve) -> Chart:
    """Baseline and ELMo over increasing shares of the training data."""
    sides = [side for point in curve.points for side in (point.scores.baseline, point.scores.others[0])]
    start = axis_start(fmean(side.test) + sign * deviation(side.test) for side in sides for sign in (-1, 1))
    return Chart(
        "sample-efficiency",
        f"Sample efficiency: {curve.task}",
        f"Test {curve.metric} by share of the training data. {_LEGEND}{axis_note(start)}",
        partial(_draw, curve=curve, start=start),
    )


def _draw(figure: "Figure", *, curve: Curve, start: float) -> None:
    axes = figure.subplots()
    shares = [100 * point.share for point in curve.points]
    sides = {
        "baseline": [point.scores.baseline.test for point in curve.points],
        "with ELMo": [point.scores.others[0].test for point in curve.points],
    }
    for (label, scores), color in zip(sides.items(), COLORS, strict=False):
        means, spread = [fmean(own) for own in scores], [deviation(own) for own in scores]
        low, high = ([mean + sign * d for mean, d in zip(means, spread, strict=True)] for sign in (-1, 1))
        band = f"{label}: ± one standard deviation" if any(spread) else None
        axes.fill_between(shares, low, high, color=color, alpha=0.2, linewidth=0, label=band)
        axes.plot(shares, means, "o-", color=color, label=label)
    goal = fmean(sides["baseline"][-1])
    whole = f"baseline on {_percent(curve.points[-1].share)} of the training data"
    axes.axhline(goal, color=COLORS[0], linestyle=":", linewidth=1, label=whole)
    axes.set_xscale("log")
    axes.set_xticks(shares, [_percent(point.share) for point in curve.points])
    axes.minorticks_off()
    axes.set(xlabel="share of the training data", ylabel=f"test {curve.metric}")
    axes.set_ylim(bottom=start)
    axes.legend(frameon=False)
