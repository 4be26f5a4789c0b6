"""`elmokit task evaluate`: figures, figures per type, files for the official scorers, a page with the errors."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli import options
from elmokit.cli.experiments import figures_line
from elmokit.cli.paths import check_exists, check_files, check_model
from elmokit.cli.progress import progress_bars
from elmokit.cli.task_models import TRAINED_REMEDY, OwnModelOption, ThreadsOption, TrainedArgument, load_task_model

if TYPE_CHECKING:
    from elmokit.tasks.evaluation import Evaluation

ScorerFiles = Annotated[
    Path | None,
    typer.Option("--scorer-files", help="Folder for gold labels and predictions in the official scorer's format."),
]


def evaluate(
    name: options.TaskName,
    trained: TrainedArgument,
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Files of the task, with gold labels.")],
    details: Annotated[
        bool, typer.Option("--details", help="Also print figures per type, label or kind of question.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(*options.OUTPUT_NAMES, help="Folder for a page with all tables and errors in context."),
    ] = None,
    max_errors: Annotated[int, typer.Option(min=0, help="Maximum number of errors on the page.")] = 200,
    scorer_folder: ScorerFiles = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing page in --output and files in --scorer-files.")
    ] = False,
    model: OwnModelOption = None,
    threads: ThreadsOption = None,
    precision: options.OwnPrecision = None,
    as_json: options.TaskJson = False,
) -> None:
    """Score a trained model on files.

    \b
    Examples:
      elmokit task evaluate ner run/model eng.testb
      elmokit task evaluate ner run/model eng.testb --details --output errors
      elmokit task evaluate ner run/model eng.testb --scorer-files scored --json
    """  # noqa: D301
    check_exists(trained, TRAINED_REMEDY)
    check_files(files)
    check_model(model)
    _check_folders(output, scorer_folder, overwrite)
    from elmokit.analysis.tasks.evaluation import report_evaluation
    from elmokit.tasks.evaluation import predict_files

    options.use_threads(threads)
    loaded = load_task_model(name, trained, model, threads, precision)
    with progress_bars("embedding", "predicting") as (embedding, predicting):
        found = predict_files(loaded, files, embedding=embedding, predicting=predicting)
    report = report_evaluation(
        found, f"{name}: {trained.name} on {', '.join(Path(file).name for file in files)}", max_errors
    )
    if as_json:
        typer.echo(json.dumps(dict(report.figures) if details else found.figures, ensure_ascii=False))
    else:
        typer.echo(figures_line(found.figures))
        if details:
            _print_tables(report.blocks[2:])
    if output is not None:
        from elmokit.analysis.page import write_report

        _say([write_report(report, output, overwrite=overwrite)[-1]])
    if scorer_folder is not None:
        _say(_write_scorer_files(found, scorer_folder))


def _check_folders(output: Path | None, scorer_folder: Path | None, overwrite: bool) -> None:
    """Refuse folders that must not be overwritten, before anything is computed."""
    if output is not None:
        from elmokit.analysis.page import check_report_folder

        check_report_folder(output, overwrite=overwrite)
    if scorer_folder is not None:
        from elmokit.filesystem import guard_output

        guard_output(scorer_folder, kind="scorer files", is_ours=_holds_scorer_files, overwrite=overwrite)


def _holds_scorer_files(folder: Path) -> bool:
    from elmokit.filesystem import foreign_files
    from elmokit.tasks.scorer_files import FILE_NAMES

    return folder.is_dir() and not foreign_files(folder, FILE_NAMES)


def _write_scorer_files(found: "Evaluation", folder: Path) -> list[Path]:
    from elmokit.filesystem import write_text_atomic
    from elmokit.tasks.scorer_files import scorer_files

    folder.mkdir(parents=True, exist_ok=True)
    contents = scorer_files(found)
    for name, content in contents.items():
        write_text_atomic(folder / name, content)
    return [folder / name for name in contents]


def _print_tables(blocks: "tuple[object, ...]") -> None:
    from rich.console import Console

    from elmokit.analysis.report import Table, print_table

    console = Console(highlight=False)
    for block in blocks:
        if isinstance(block, Table):
            print_table(block, console)


def _say(paths: list[Path]) -> None:
    for path in paths:
        typer.echo(f"wrote {path}", err=True)
