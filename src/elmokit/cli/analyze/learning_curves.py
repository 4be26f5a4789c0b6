"""`elmokit analyze learning-curves`: dev scores by epoch."""

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish
from elmokit.cli.paths import check_exists


def learning_curves(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs of `elmokit task train`.")],
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Plot the development scores of task runs by epoch: has training converged, and which variant learns faster?

    Runs that differ only in their seed are grouped; `elmokit task compare` leaves such runs in its output folder.

    \b
    Examples:
      elmokit analyze learning-curves compared/baseline-1 compared/elmo-1
      elmokit analyze learning-curves compared/baseline-* compared/elmo-* --output report
    """  # noqa: D301
    check_output(output, overwrite)
    for path in runs:
        check_exists(path, "give the folder of a run of `elmokit task train` that has ended")
    from elmokit.analysis import analyze_learning_curves

    finish(analyze_learning_curves(runs), output, as_json, overwrite)
