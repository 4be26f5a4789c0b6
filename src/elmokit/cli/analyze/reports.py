"""What the analysis commands share: loading the model, and printing and writing a report."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elmokit.cli.options import use_threads

if TYPE_CHECKING:
    from elmokit.analysis.report import Report
    from elmokit.embedding.embedder import Embedder


def load_embedder(model: str, threads: int | None, precision: str) -> "Embedder":
    """The model of an analysis, on the given number of cores and in the given precision."""
    from elmokit.embedding.embedder import Embedder

    use_threads(threads)
    return Embedder.from_pretrained(model, threads=threads, precision=precision)


def check_output(output: Path | None, overwrite: bool) -> None:
    """Refuse an output folder that must not be overwritten, before anything is computed."""
    if output is not None:
        from elmokit.analysis.page import check_report_folder

        check_report_folder(output, overwrite=overwrite)


def finish(report: "Report", output: Path | None, as_json: bool, overwrite: bool) -> None:
    """Print a report, or its figures, and write its files."""
    from rich.console import Console

    from elmokit.analysis.page import write_report
    from elmokit.analysis.report import show

    if as_json:
        typer.echo(json.dumps(dict(report.figures), ensure_ascii=False))
    else:
        show(report, Console(highlight=False))
    if output is not None:
        for path in write_report(report, output, overwrite=overwrite):
            typer.echo(f"wrote {path}", err=True)
