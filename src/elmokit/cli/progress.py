"""Progress bars on stderr: of work counted in items, of a file to embed, of a training run and of parallel runs."""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from elmokit.cli.stopped import resume_hint
from elmokit.errors import ElmokitWarning
from elmokit.progress import ProgressCallback

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Display

    from elmokit.embedding.bulk import EmbedCallback, EmbedProgress
    from elmokit.training.loop import Progress

_TAIL_BYTES = 16_384
"""Bytes read from the end of a log: usually more than the entries since the last evaluation."""


def _display(*, keep: bool = False, below: "Callable[[], Iterator[RenderableType]] | None" = None) -> "Display":
    """Bars with their label, figures, the time so far and the time left.

    Args:
        keep: leave the bars on the screen at the end.
        below: what to show below the bars.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Display

    class Bars(Display):
        def get_renderables(self) -> "Iterator[RenderableType]":
            yield from super().get_renderables()
            yield from below() if below else ()

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}"))
    times, rate = (TimeElapsedColumn(), TimeRemainingColumn()), 2 if below else 10
    return Bars(*columns, *times, console=Console(stderr=True), transient=not keep, refresh_per_second=rate)


def _add_bar(display: "Display", what: str, *, only_under_way: bool = False, counts: bool = False) -> ProgressCallback:
    """Add a bar to a display.

    Args:
        display: the display.
        what: the label of the bar.
        only_under_way: hide the bar before the first item and after the last, for use next to another bar.
        counts: show the numbers of items instead of a percentage.
    """
    number = display.add_task(what, total=None, visible=not only_under_way, figures="")

    def report(done: int, total: int) -> None:
        figures = f"{done:,}/{total:,}" if counts else f"{done / max(total, 1):.0%}"
        visible = done < total or not only_under_way
        display.update(number, completed=done, total=total, figures=figures, visible=visible)

    return report


@contextmanager
def progress_bar(what: str, *, beside_output: bool = False) -> Iterator[ProgressCallback | None]:
    """A bar if stderr is a terminal, None elsewhere.

    Args:
        what: the label of the bar.
        beside_output: results are printed meanwhile, so show no bar if stdout is a terminal too.
    """
    if not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
        yield None
        return
    with _display() as display:
        yield _add_bar(display, what)


@contextmanager
def progress_bars(*steps: str) -> Iterator[tuple[ProgressCallback | None, ...]]:
    """One bar per step, shown while the step is running; None for each without a terminal."""
    if not sys.stderr.isatty():
        yield (None,) * len(steps)
        return
    with _display() as display:
        yield tuple(_add_bar(display, step, only_under_way=True) for step in steps)


@contextmanager
def embedding_bar() -> "Iterator[EmbedCallback | None]":
    """A bar with the number of lines and tokens per second of a file to embed; None without a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with _display() as display:
        task = display.add_task("embedding", total=None, figures="")

        def report(done: "EmbedProgress") -> None:
            if done.num_written:
                display.update(task, description="writing", total=done.num_lines, completed=done.num_written)
                return
            speed = done.num_tokens / (display.tasks[0].elapsed or 1e-9)
            figures = f"{done.num_lines:,} lines, {speed:,.0f} tokens/s"
            total = None if done.share is None else 1.0
            display.update(task, total=total, completed=done.share or 0.0, figures=figures)

        yield report


# --- A training run --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingBar:
    """The callbacks of a run; None without a display."""

    report: "Callable[[Progress, Mapping[str, float]], None] | None" = None
    reading: ProgressCallback | None = None
    embedding: ProgressCallback | None = None
    notify: Callable[[str], None] | None = None


def is_first_process() -> bool:
    """Whether this process reports for the run; the others that torchrun started report only their own failures."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def training_bar(output: Path, *, metric: str = "perplexity", unit: str = "tokens") -> Iterator[TrainingBar]:
    """A bar with speed, time left, loss and a held-out figure on a terminal; elsewhere, one line per evaluation.

    A run that is stopped exits with 130 and says how to resume.
    """
    how = f"repeat the command with --resume to resume {output}"
    with resume_hint(how, silent=not is_first_process()):
        if not is_first_process():
            warnings.simplefilter("ignore", ElmokitWarning)
            yield TrainingBar()
        elif sys.stderr.isatty():
            with _display(keep=True) as display:
                yield _add_training_bar(display, metric, unit)
        else:
            yield TrainingBar(report=partial(_print_evaluation, metric), notify=partial(typer.echo, err=True))


def _print_evaluation(metric: str, progress: "Progress", figures: Mapping[str, float]) -> None:
    if (value := figures.get(f"heldout_{metric}")) is not None:
        others = {
            name.removeprefix("heldout_"): figure
            for name, figure in figures.items()
            if name.startswith("heldout_") and name not in (f"heldout_{metric}", "heldout_oov_rate")
        }
        more = ", ".join(f"{name} {figure:.2f}" for name, figure in others.items())
        typer.echo(f"step {progress.step:,}: held-out {metric} {value:.2f}{f' ({more})' if more else ''}", err=True)


def _add_training_bar(display: "Display", metric: str, unit: str) -> TrainingBar:
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
        display.update(task, description="training", total=total, completed=progress.step, figures=", ".join(parts))

    embedding = _add_bar(display, "embedding", only_under_way=True)
    return TrainingBar(
        report, reading, embedding, lambda line: display.console.print(line, markup=False, highlight=False)
    )


# --- Parallel runs ---------------------------------------------------------------------------------------------------


@contextmanager
def runs_bar(
    output: Path, num_runs: int, metric: str
) -> Iterator[tuple[ProgressCallback | None, ProgressCallback | None]]:
    """Bars for the embedding and for all runs, and one line per active run; None without a terminal.

    The runs are other processes, so the display reads their logs: active runs are those that have written since.

    Args:
        output: the folder of the runs.
        num_runs: number of runs, done or not.
        metric: the figure to show.

    Yields:
        The callbacks for the progress of embedding and for the number of runs that have ended.
    """
    if not sys.stderr.isatty():
        yield None, None
        return
    from rich.text import Text

    before = _log_sizes(output)

    def active() -> Iterator[Text]:
        for folder, size in _log_sizes(output).items():
            if size != before.get(folder) and (state := describe_run(folder, metric)):
                yield Text(f"{folder.name}: {state}")

    with _display(below=active) as display:
        on_runs = _add_bar(display, "runs", counts=True)
        on_runs(0, num_runs)
        yield _add_bar(display, "embedding", only_under_way=True), on_runs


def _log_sizes(output: Path) -> dict[Path, int]:
    """The size of each run's log, by the run's folder."""
    sizes = {}
    for path in sorted(output.glob("*/log.jsonl")):
        with suppress(OSError):  # a run may start over
            sizes[path.parent] = path.stat().st_size
    return sizes


def describe_run(folder: Path, metric: str) -> str | None:
    """The progress of a run, from the end of its log; None if it has not started or is done."""
    if (folder / "result.json").exists():
        return None
    entries = _read_tail(folder / "log.jsonl")
    if not entries:
        return None
    figures = [entry[f"heldout_{metric}"] for entry in entries if f"heldout_{metric}" in entry]
    dev = f", dev {metric} {figures[-1]:.2f}" if figures else ""
    return f"step {entries[-1]['step']:,}{dev}"


def _read_tail(path: Path) -> list[dict[str, Any]]:
    """The last complete entries of a log that another process may be writing."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().split(b"\n")[int(size > _TAIL_BYTES) : -1]
        return [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return []
