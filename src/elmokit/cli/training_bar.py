"""The display of a training run."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elmokit.cli.stopped import resume_hint
from elmokit.errors import ElmokitWarning
from elmokit.progress import ProgressCallback

if TYPE_CHECKING:
    from elmokit.training.loop import Progress


@dataclass(frozen=True)
class Bar:
    """The callbacks of a run; None without a display."""

    report: "Callable[[Progress, Mapping[str, float]], None] | None" = None
    reading: ProgressCallback | None = None
    notify: Callable[[str], None] | None = None


def is_first_process() -> bool:
    """Whether this process reports for the run; the others that torchrun started report only their own failures."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def training_bar(output: Path, *, metric: str = "perplexity", unit: str = "tokens") -> Iterator[Bar]:
    """A bar with speed, time left, loss and a held-out figure on a terminal; elsewhere, one line per evaluation.

    A run that is stopped exits with 130 and says how to resume.
    """
    how = f"repeat the command with --resume to resume {output}"
    with resume_hint(how, silent=not is_first_process()):
        if not is_first_process():
            warnings.simplefilter("ignore", ElmokitWarning)
            yield Bar()
        elif sys.stderr.isatty():
            with _rich_bar(metric, unit) as bar:
                yield bar
        else:
            yield Bar(report=partial(_print_evaluation, metric), notify=partial(typer.echo, err=True))


def _print_evaluation(metric: str, progress: "Progress", figures: Mapping[str, float]) -> None:
    if (value := figures.get(f"heldout_{metric}")) is not None:
        others = {
            name.removeprefix("heldout_"): figure
            for name, figure in figures.items()
            if name.startswith("heldout_") and name not in (f"heldout_{metric}", "heldout_oov_rate")
        }
        more = ", ".join(f"{name} {figure:.2f}" for name, figure in others.items())
        typer.echo(f"step {progress.step:,}: held-out {metric} {value:.2f}{f' ({more})' if more else ''}", err=True)


@contextmanager
def _rich_bar(metric: str, unit: str) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    with Display(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as display:
        task = display.add_task("reading", total=None, figures="")
        latest: dict[str, float] = {}

        def reading(done: int, total: int) -> None:
            display.update(task, completed=done, total=total)

        def report(progress: "Progress", figures: Mapping[str, float]) -> None:
            latest.update(figures)
            total = max(progress.num_steps, progress.step)  # the last rows of text may take more steps than expected
            parts = [f"step {progress.step:,}/{total:,}", f"{latest.get('per_second', 0):,.0f} {unit}/s"]
            if "loss" in latest:
                parts.append(f"training loss {latest['loss']:.3f}")
            if (value := latest.get(f"heldout_{metric}")) is not None:
                parts.append(f"held-out {metric} {value:.1f} (best {progress.best or 0:.1f})")
            display.update(
                task,
                description="training",
                total=total,
                completed=progress.step,
                figures=", ".join(parts),
            )

        yield Bar(report, reading, lambda line: display.console.print(line, markup=False, highlight=False))
