"""What the commands that run variants of a task share: reading the experiment, and the display of its runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elmokit.cli.options import parse_changes, parse_seeds
from elmokit.cli.paths import check_files
from elmokit.cli.progress import runs_bar
from elmokit.cli.stopped import resume_hint
from elmokit.progress import ProgressCallback

if TYPE_CHECKING:
    from elmokit.tasks.experiments.variants import Done, Experiment, RunDone


def read_experiment(
    name: str,
    files: Mapping[str, Sequence[str] | None],
    output: Path,
    *,
    seeds: str,
    preset: str,
    changes: list[str] | None,
    processes: int | None,
    threads: int | None = None,
    varied: Sequence[str] = (),
) -> "Experiment":
    """What all variants of a command share.

    Args:
        name: the task.
        files: patterns for train, dev, test and vectors.
        output: the folder for the runs.
        seeds: the value of --seeds.
        preset: a preset's name or a file of settings.
        changes: the values of --set.
        processes: number of parallel runs.
        threads: total number of cores.
        varied: settings that the command itself varies; the user must not set them.
    """
    changed = parse_changes(changes)
    for setting in varied:
        if setting in changed:
            raise typer.BadParameter(f"{setting} is what this command varies: leave it out.", param_hint="--set")
    numbers = parse_seeds(seeds)
    check_files(*files.values())
    from elmokit.tasks.experiments.variants import Experiment
    from elmokit.tasks.registry import find_task

    paths = {split: list(own or []) for split, own in files.items()}
    task = find_task(name)
    return Experiment(
        task,
        **paths,
        output=output,
        seeds=numbers,
        preset=preset,
        changes=changed,
        processes=processes,
        threads=threads,
    )


@contextmanager
def watch_runs(experiment: "Experiment", num_variants: int) -> "Iterator[tuple[ProgressCallback | None, Done]]":
    """The display of all runs of an experiment, with one line on stderr per finished run.

    Yields:
        The callbacks for the progress of embedding and for each run that has ended.
    """
    with (
        resume_hint(f"repeat the command to resume {experiment.output}"),
        runs_bar(experiment.output, num_variants * len(experiment.seeds), experiment.task.metric) as bars,
    ):
        on_embedding, on_number = bars

        def on_run(run: "RunDone") -> None:
            when = ", already done" if run.before else ""
            figures = figures_line(run.result["test"])
            typer.echo(f"[{run.number}/{run.total}] {run.name}: test {figures}{when}", err=True)
            if on_number is not None:
                on_number(run.number, run.total)

        yield on_embedding, on_run


def figures_line(figures: Mapping[str, float]) -> str:
    """The figures on one line."""
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
