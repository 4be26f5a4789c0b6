"""`elmokit analyze layer-weights`: how tasks mix the layers (Figure 2)."""

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish
from elmokit.cli.paths import check_exists


def layer_weights(
    trained: Annotated[
        list[Path], typer.Argument(metavar="TRAINED", help="Runs of `elmokit task train`, or their model/ folders.")
    ],
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """The layer weights and scales that task models learned (Figure 2).

    Runs that differ only in their seed are averaged.

    \b
    Examples:
      elmokit analyze layer-weights runs/ner/elmo-1 runs/ner/elmo-2 runs/qa/elmo-1
      elmokit analyze layer-weights runs/*/elmo-* --output report
    """  # noqa: D301
    check_output(output, overwrite)
    for path in trained:
        check_exists(path, "give the folder of a run of `elmokit task train`, or its model/")
    from elmokit.analysis import analyze_layer_weights

    finish(analyze_layer_weights(trained), output, as_json, overwrite)
