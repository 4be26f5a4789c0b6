"""A task with and without ELMo, over seeds: a row of the paper's Table 1, with the paper's own beside it.

Every run is a process of its own with one thread, several side by side, in a folder of its own: repeat the command and
what is done is not done again.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmokit.cores import usable_cores
from elmokit.errors import ElmokitError
from elmokit.tasks.base import Task
from elmokit.tasks.significance import paired_bootstrap

Done = Callable[[str, dict[str, Any]], None]
"""Is told of each run that has ended, by its name and result."""


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


@dataclass(frozen=True)
class Variant:
    """One side of a comparison."""

    name: str
    arguments: tuple[str, ...]
    """What `elmokit task train NAME` gets beside the files, seed and output."""


@dataclass(frozen=True)
class Comparison:
    """Scores of two sides by seed, and what they say."""

    task: str
    metric: str
    seeds: tuple[int, ...]
    baseline: tuple[float, ...]
    elmo: tuple[float, ...]
    p: float
    """Share of resampled test sets on which ELMo is not better."""

    @property
    def increase(self) -> float:
        """Absolute, of the means."""
        return fmean(self.elmo) - fmean(self.baseline)

    @property
    def relative(self) -> float:
        """The share of the baseline's error that is gone, in percent."""
        return 100 * self.increase / (100 - fmean(self.baseline))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        sides = {"baseline": self.baseline, "elmo": self.elmo}
        return {
            "task": self.task,
            "metric": self.metric,
            "seeds": list(self.seeds),
            **{
                name: {"scores": list(scores), "mean": fmean(scores), "deviation": deviation(scores)}
                for name, scores in sides.items()
            },
            "increase": self.increase,
            "relative_error_reduction": self.relative,
            "p": self.p,
            "paper": PAPER[self.task]._asdict(),
        }


def deviation(scores: Sequence[float]) -> float:
    """Standard deviation; 0 for a single score."""
    return stdev(scores) if len(scores) > 1 else 0.0


def run_all(
    task: str,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    files: Sequence[str],
    output: Path,
    *,
    processes: int | None = None,
    done: Done | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """Train every variant with every seed, seed by seed, and give the results of each variant in the order of seeds.

    Args:
        task: its name.
        variants: what to train.
        seeds: with which seeds.
        files: the options that name files: --train, --dev, --test, --vectors.
        output: a folder; a run's own is output/VARIANT-SEED.
        processes: runs side by side; None is one a core.
        done: is told of each run that has ended.
    """

    def run(job: tuple[int, Variant]) -> dict[str, Any]:
        seed, variant = job
        folder = output / f"{variant.name}-{seed}"
        command = [sys.executable, "-m", "elmokit", "task", "train", task, *files, *variant.arguments]
        command += ["--set", f"seed={seed}", "--output", str(folder), "--threads", "1", "--resume", "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            reason = ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"exit {ended.returncode}"
            raise ElmokitError(f"the run {folder} failed ({reason.removeprefix('elmokit: ')}): repeat the command.")
        result: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if done is not None:
            done(folder.name, result)
        return result

    jobs = [(seed, variant) for seed in seeds for variant in variants]
    with ThreadPoolExecutor(processes or usable_cores()) as pool:
        results = dict(zip(jobs, pool.map(run, jobs), strict=True))
    return {variant.name: [results[seed, variant] for seed in seeds] for variant in variants}


def compare(
    task: Task[Any],
    results: Mapping[str, Sequence[Mapping[str, Any]]],
    names: tuple[str, str],
    seeds: Sequence[int],
    examples: Sequence[Any],
    output: Path,
) -> Comparison:
    """Put two variants side by side on test examples, by the predictions that their runs left."""
    counts: list[NDArray[np.float64]] = []
    for name in names:
        runs = [read_predictions(output / f"{name}-{seed}") for seed in seeds]
        counts.append(np.stack([task.count_all(examples, run) for run in runs]))  # (S, N, C)
    p = paired_bootstrap(counts[0], counts[1], lambda sums: task.figures(sums)[task.metric])
    baseline, elmo = (tuple(float(result["test"][task.metric]) for result in results[name]) for name in names)
    return Comparison(task.name, task.metric, tuple(seeds), baseline, elmo, p)


def read_predictions(folder: Path) -> list[Any]:
    """The test predictions of a finished run."""
    lines = (folder / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
