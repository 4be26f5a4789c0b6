"""What the task commands share: their options, and how variants of a task are run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli.output_option import OUTPUT_NAMES
from elmokit.cli.paths import check_files
from elmokit.cli.pretrain import parse_changes
from elmokit.cli.runs_bar import runs_bar
from elmokit.cli.stopped import resume_hint

if TYPE_CHECKING:
    from elmokit.tasks.variants import Experiment, RunDone, Runs, Variant

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="One of ner, sentiment, nli, qa, srl, coref.")]
TrainOption = Annotated[list[str], typer.Option("--train", help="Training files or globs. Repeatable.")]
DevOption = Annotated[list[str], typer.Option("--dev", help="Development files (model selection).")]
TestOption = Annotated[list[str] | None, typer.Option("--test", help="Test files.")]
NeededTestOption = Annotated[list[str], typer.Option("--test", help="Test files.")]
VectorsOption = Annotated[
    list[str] | None, typer.Option("--vectors", help="Static word vectors as text (GloVe, word2vec). Repeatable.")
]
PresetOption = Annotated[str, typer.Option(help="small, paper, or a TOML file.")]
SetOption = Annotated[list[str] | None, typer.Option("--set", help="Change a setting: --set elmo.place=both.")]
OwnModelOption = Annotated[
    str | None, typer.Option("--model", help="The biLM, if it is no longer where it was in training.")
]
SeedsOption = Annotated[str, typer.Option(help="Random seeds, separated by spaces or commas.")]
ProcessesOption = Annotated[int | None, typer.Option(min=1, help="Number of parallel runs; by default one per core.")]
RunsOption = Annotated[
    Path, typer.Option(*OUTPUT_NAMES, help="A folder for the runs and the report; repeat the command to resume.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


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
    from elmokit.tasks.registry import find_task
    from elmokit.tasks.variants import Experiment

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


def run_experiment(experiment: "Experiment", variants: "Sequence[Variant]") -> "Runs":
    """Run all variants, with one line on stderr per finished run."""
    from elmokit.tasks.variants import run_all

    folders = [experiment.folder(variant, seed) for seed in experiment.seeds for variant in variants]
    with (
        resume_hint(f"repeat the command to resume {experiment.output}"),
        runs_bar(folders, experiment.task.metric) as embedding,
    ):
        return run_all(experiment, variants, embedding=embedding, done=_tell_run)


def _tell_run(run: "RunDone") -> None:
    when = ", already done" if run.before else ""
    typer.echo(f"[{run.number}/{run.total}] {run.name}: test {figures_line(run.result['test'])}{when}", err=True)


def parse_seeds(seeds: str) -> list[int]:
    """Distinct numbers, separated by spaces or commas."""
    words = seeds.replace(",", " ").split()
    if not words or not all(word.isascii() and word.isdecimal() for word in words):
        raise typer.BadParameter(f"{seeds!r} is not a list of numbers such as '1 2 3'.", param_hint="--seeds")
    numbers = [int(word) for word in words]
    if len(set(numbers)) != len(numbers):
        raise typer.BadParameter(f"{seeds!r} repeats a seed: give distinct ones.", param_hint="--seeds")
    return numbers


def figures_line(figures: Mapping[str, float]) -> str:
    """The figures on one line."""
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
