"""`elmokit analyze wsd`: which layer tells word senses apart (Table 5)."""

from pathlib import Path
from typing import Annotated

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish, load_embedder
from elmokit.cli.progress import progress_bars
from elmokit.cli.stopped import resume_hint

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="A folder with semcor3.0.tar.xz, wordnet3.0-index.sense.xz and eval/senseval2 …"),
]


def wsd(
    model: options.Model = options.DEFAULT_MODEL,
    data: DataOption = None,
    parts: Annotated[str, typer.Option(help="SemCor parts, comma-separated.")] = "brown1,brown2,brownv",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the choice of held-out SemCor texts.")] = 0,
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Evaluate word-sense disambiguation by layer (Table 5), and by votes of similar occurrences on the same vectors.

    Without --data the folder is wsd in $ELMOKIT_DATA. Layers are cached, about 1 GB for a model of width 256: the next
    run on the same model takes a few minutes less.

    \b
    Examples:
      elmokit analyze wsd --data data/wsd
      elmokit analyze wsd --data data/wsd --output report
    """  # noqa: D301
    check_output(output, overwrite)
    folder = options.find_data(data, "wsd")
    from elmokit.analysis import analyze_wsd

    chosen = [part.strip() for part in parts.split(",")]
    embedder = load_embedder(model, threads, precision)
    with resume_hint(), progress_bars("embedding", "evaluation") as (on_embedding, on_evaluation):
        report = analyze_wsd(
            embedder,
            folder,
            parts=chosen,
            seed=seed,
            on_embedding=on_embedding,
            on_evaluation=on_evaluation,
        )
    finish(report, output, as_json, overwrite)
