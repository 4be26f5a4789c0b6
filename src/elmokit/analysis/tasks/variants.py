"""Which parts of ELMo help a task: layers and their mix (the paper's Table 2), and where ELMo is added (Table 3).

Both compare variants of a task over seeds with the baseline and, if the paper has the task, with its rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from elmokit.analysis.axes import axis_note, axis_start
from elmokit.analysis.page import COLORS
from elmokit.analysis.report import Cell, Chart, Report, Table
from elmokit.errors import ConfigError
from elmokit.progress import ProgressCallback
from elmokit.tasks.experiments.comparison import P_TEXT, PAPER, Comparison, compare, mean_text, p_text, setting_text
from elmokit.tasks.experiments.variants import BASELINE, Done, Experiment, Runs, Variant, run_all

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Changes = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Study:
    """Variants of ELMo in a task, and the paper's results for them."""

    name: str
    title: str
    table: str
    """The table in the paper."""
    varied: tuple[str, ...]
    """Settings that the study varies."""
    rows: Mapping[str, tuple[str, Changes]]
    """Label and settings of each variant except the baseline, by name."""
    paper: Mapping[str, Mapping[str, float]]
    """The paper's scores on its dev sets, by task and variant."""

    def variants(self, bilm: str) -> tuple[Variant, ...]:
        """All variants except the baseline, for a model."""
        return tuple(Variant(name, label, changes, bilm) for name, (label, changes) in self.rows.items())


def _mix(layers: str, weight: str | None = None, *, gamma: bool = True) -> Changes:
    regularization = (("elmo.regularization", weight),) if weight else ()
    return (("elmo.layers", layers), ("elmo.gamma", "true" if gamma else "false"), *regularization)


MIXING = Study(
    "mixing",
    "Layers and their mix",
    "Table 2",
    ("elmo.layers", "elmo.regularization", "elmo.gamma"),
    {
        "last": ("last layer", _mix("top")),
        "lambda-1": ("all layers, λ = 1", _mix("all", "1.0")),
        "lambda-0.001": ("all layers, λ = 0.001", _mix("all", "0.001")),
        "all-no-gamma": ("all layers, λ = 0.001, without γ", _mix("all", "0.001", gamma=False)),
        "last-no-gamma": ("last layer, without γ", _mix("top", gamma=False)),
    },
    {
        "qa": {"baseline": 80.8, "last": 84.7, "lambda-1": 85.0, "lambda-0.001": 85.2},
        "nli": {"baseline": 88.1, "last": 89.1, "lambda-1": 89.3, "lambda-0.001": 89.5},
        "srl": {"baseline": 81.6, "last": 84.1, "lambda-1": 84.6, "lambda-0.001": 84.8},
    },
)
PLACEMENT = Study(
    "placement",
    "Where ELMo goes",
    "Table 3",
    ("elmo.place",),
    {
        "input": ("at the input", (("elmo.place", "input"),)),
        "both": ("at the input and the output", (("elmo.place", "both"),)),
        "output": ("at the output", (("elmo.place", "output"),)),
    },
    {
        "qa": {"input": 85.1, "both": 85.6, "output": 84.8},
        "nli": {"input": 88.9, "both": 89.5, "output": 88.7},
        "srl": {"input": 84.7, "both": 84.3, "output": 80.9},
    },
)


def analyze_mixing(
    experiment: Experiment,
    model: str,
    *,
    on_embedding: ProgressCallback | None = None,
    on_run: Done | None = None,
) -> Report:
    """A task with the last layer alone, with all layers and λ = 1 or 0.001, and without γ (Table 2 of the paper).

    Every variant is trained with every seed, in parallel processes. Finished runs in the experiment's folder are kept.

    Args:
        experiment: The task, its files and what else the variants share.
        model: The biLM for ELMo.
        on_embedding: Receives how many sentences of how many are embedded.
        on_run: Receives each run that has ended.
    """
    return _analyze(MIXING, experiment, model, on_embedding, on_run)


def analyze_placement(
    experiment: Experiment,
    model: str,
    *,
    on_embedding: ProgressCallback | None = None,
    on_run: Done | None = None,
) -> Report:
    """A task with ELMo at the input, at the output of the task's encoder, or both (Table 3 of the paper).

    The arguments are those of `analyze_mixing`.
    """
    return _analyze(PLACEMENT, experiment, model, on_embedding, on_run)


def _analyze(
    study: Study, experiment: Experiment, model: str, on_embedding: ProgressCallback | None, on_run: Done | None
) -> Report:
    check_varied(experiment, study.varied)
    variants = study.variants(model)
    runs = run_all(experiment, [BASELINE, *variants], embedding=on_embedding, done=on_run)
    return report_study(study, compare(runs, BASELINE, variants), runs)


def check_varied(experiment: Experiment, varied: Sequence[str]) -> None:
    """Refuse an experiment that changes a setting which the analysis itself varies."""
    if given := sorted(set(varied) & set(experiment.changes)):
        raise ConfigError(f"{given[0]} is what this analysis varies: leave it out of the experiment's changes.")


def report_study(study: Study, found: Comparison, runs: Runs) -> Report:
    """A table with one row per variant."""
    paper = study.paper.get(found.task, {})
    rows: list[tuple[Cell, ...]] = []
    for side in (found.baseline, *found.others):
        own: tuple[Cell, ...] = (side.label, mean_text(side.dev), mean_text(side.test))
        gain = (None, None) if side.p is None else (f"{found.increase(side):+.2f}", p_text(side.p))
        rows.append((*own, *gain, paper.get(side.name)) if paper else (*own, *gain))
    header: tuple[str, ...] = ("variant", f"dev {found.metric}", f"test {found.metric}", "increase", "p")
    source = PAPER.get(found.task)
    header = (*header, f"the paper, {source.data}, dev {source.metric}") if paper and source else header
    missing = "" if paper else f" The paper's {study.table} does not have this task."
    figures = {
        **found.to_dict(),
        "paper": dict(paper),
        "mixes": {name: [result["mixes"] for result in results] for name, results in runs.results.items()},
        "setting": runs.setting(),
    }
    return Report(
        f"{study.title}: {found.task}",
        (
            setting_text(runs),
            Table(f"{study.title} (the paper's {study.table})", header, tuple(rows)),
            chart_study(study, found),
            f"Increase is the test mean over the baseline's. {P_TEXT}{missing}",
        ),
        figures,
    )


def chart_study(study: Study, found: Comparison) -> Chart:
    """The test scores of every variant, seed by seed."""
    sides = (found.baseline, *found.others)
    start = axis_start(score for side in sides for score in side.test)
    caption = (
        f"Test {found.metric} of each variant: a dot is one seed, a stroke the mean over seeds, the dotted line the "
        f"baseline's mean.{axis_note(start, 'horizontal')}"
    )
    draw = partial(_draw, found=found, start=start)
    return Chart(study.name, f"{study.title}: {found.task}", caption, draw, size=(8, 2.2 + 0.5 * len(sides)))


def _draw(figure: "Figure", *, found: Comparison, start: float) -> None:
    axes = figure.subplots()
    sides = (found.baseline, *found.others)
    for place, side in enumerate(sides):
        color = COLORS[min(place, 1)]
        axes.plot(side.test, [place] * len(side.test), "o", color=color, alpha=0.5)
        axes.plot(fmean(side.test), place, "|", color=color, markersize=20, markeredgewidth=2)
    axes.plot([], [], "o", color="#444444", alpha=0.5, label="one seed")
    axes.plot([], [], "|", color="#444444", markersize=14, markeredgewidth=2, label="mean over seeds")
    mean = fmean(found.baseline.test)
    axes.axvline(mean, color=COLORS[0], linestyle=":", linewidth=1, label="mean of the baseline")
    axes.set_yticks(range(len(sides)), [side.label for side in sides])
    axes.margins(y=0.1)
    axes.invert_yaxis()
    axes.set(xlabel=f"test {found.metric}", ylabel="variant")
    axes.set_xlim(left=start)
    figure.legend(frameon=False, loc="outside lower center", ncols=3)
