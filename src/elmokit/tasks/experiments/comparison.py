"""Compare variants of a task over seeds: how much each adds to a baseline, and whether the gain is significant.

With a biLM as the only variant, this is a row of the paper's Table 1; the paper's own rows are here too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, NamedTuple

from elmokit.tasks.experiments.significance import paired_bootstrap
from elmokit.tasks.experiments.variants import Runs, Variant
from elmokit.wording import counted


class PaperRow(NamedTuple):
    """What the paper reports, on its own data."""

    data: str
    metric: str
    baseline: float
    elmo: float
    relative: float


PAPER = {
    "qa": PaperRow("SQuAD", "F1", 81.1, 85.8, 24.9),
    "nli": PaperRow("SNLI", "accuracy", 88.0, 88.7, 5.8),
    "srl": PaperRow("CoNLL-2012", "F1", 81.4, 84.6, 17.2),
    "coref": PaperRow("CoNLL-2012", "average F1", 67.2, 70.4, 9.8),
    "ner": PaperRow("CoNLL-2003", "F1", 90.15, 92.22, 21.0),
    "sentiment": PaperRow("SST-5", "accuracy", 51.4, 54.7, 6.8),
}
P_TEXT = (
    "± is the standard deviation over seeds; p is the share of 10,000 resampled test sets on which the mean over seeds "
    "is not above the baseline's."
)


@dataclass(frozen=True)
class VariantScores:
    """The scores of a variant, one per seed."""

    name: str
    label: str
    dev: tuple[float, ...]
    test: tuple[float, ...]
    p: float | None = None
    """Share of resampled test sets on which the variant is not better than the baseline; None for the baseline."""
    further: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The task's other figures on the test set."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "label": self.label,
            "dev": summary(self.dev),
            "test": summary(self.test),
            "further": {name: summary(scores) for name, scores in self.further.items()},
        }


@dataclass(frozen=True)
class Comparison:
    """A baseline and the variants compared with it."""

    task: str
    metric: str
    seeds: tuple[int, ...]
    baseline: VariantScores
    others: tuple[VariantScores, ...]

    def increase(self, variant: VariantScores) -> float:
        """Absolute increase of the mean test score."""
        return fmean(variant.test) - fmean(self.baseline.test)

    def relative(self, variant: VariantScores) -> float | None:
        """Relative error reduction in percent; None if the baseline makes no error."""
        error = 100 - fmean(self.baseline.test)
        return 100 * self.increase(variant) / error if error > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        others = [
            {
                **variant.to_dict(),
                "increase": self.increase(variant),
                "relative_error_reduction": self.relative(variant),
                "p": variant.p,
            }
            for variant in self.others
        ]
        return {
            "task": self.task,
            "metric": self.metric,
            "seeds": list(self.seeds),
            "baseline": self.baseline.to_dict(),
            "others": others,
        }


def compare(runs: Runs, baseline: Variant, others: Sequence[Variant]) -> Comparison:
    """Compare variants with a baseline, using the predictions that their runs saved."""
    task = runs.experiment.task
    first = runs.test_counts(baseline)  # (S, N, C)

    def p_value(variant: Variant) -> float:
        return paired_bootstrap(first, runs.test_counts(variant), lambda sums: task.figures(sums)[task.metric])

    scores = tuple(read_scores(runs, variant, p=p_value(variant)) for variant in others)
    return Comparison(task.name, task.metric, tuple(runs.experiment.seeds), read_scores(runs, baseline), scores)


def read_scores(runs: Runs, variant: Variant, *, p: float | None = None) -> VariantScores:
    """The scores of a variant's runs."""
    metric = runs.experiment.task.metric
    dev, test = (runs.scores(variant, split) for split in ("dev", "test"))
    further = {name: scores for name, scores in test.items() if name != metric}
    return VariantScores(variant.name, variant.label, dev[metric], test[metric], p, further)


def deviation(scores: Sequence[float]) -> float:
    """Standard deviation; 0 for a single score."""
    return stdev(scores) if len(scores) > 1 else 0.0


def summary(scores: Sequence[float]) -> dict[str, Any]:
    """Scores with their mean and deviation, as plain values."""
    return {"scores": list(scores), "mean": fmean(scores), "deviation": deviation(scores)}


def mean_text(scores: Sequence[float]) -> str:
    """Mean and deviation as text; for a single score, only the mean."""
    return f"{fmean(scores):.2f}" + (f" ± {deviation(scores):.2f}" if len(scores) > 1 else "")


def p_text(p: float | None) -> str:
    """A p-value as text; empty if there is none."""
    return "" if p is None else f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def setting_text(runs: Runs) -> str:
    """Data, settings and biLM of a comparison, as text."""
    setting = runs.setting()
    parts = []
    for name, number in setting["examples"].items():
        files = ", ".join(file["name"] for file in setting["data"][name])
        parts.append(f"{name}: {files} ({counted(number, 'example')})")
    changes = "".join(f", {name} = {value}" for name, value in setting["changes"].items())
    vectors = ", ".join(file["name"] for file in setting["data"].get("vectors", []))
    bilms = ", ".join(f"{name} ({digest[:8]})" for name, digest in setting["bilms"].items())
    return (
        f"{setting['task']}; {'; '.join(parts)}; preset {setting['preset']}{changes}"
        f"{f'; word vectors: {vectors}' if vectors else ''}; biLM: {bilms}; "
        f"seeds {', '.join(map(str, setting['seeds']))}."
    )
