"""`elmokit analyze pos` and `ner`: what a linear probe reads from each layer."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish, load_embedder
from elmokit.cli.progress import progress_bars
from elmokit.cli.stopped import resume_hint

if TYPE_CHECKING:
    from elmokit.analysis.probes.pos import TagSet

QUICK_SENTENCES = 2000
QuickOption = Annotated[
    bool, typer.Option("--quick", help=f"Only the first {QUICK_SENTENCES:,} sentences of each file.")
]


def pos(
    model: options.Model = options.DEFAULT_MODEL,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="A treebank: one *train.conllu, *dev.conllu and *test.conllu; .gz .xz .bz2 work."),
    ] = None,
    tags: Annotated[
        Literal["xpos", "upos", "both"],
        typer.Option("--tags", help="The treebank's own tags (xpos), universal tags (upos), or both."),
    ] = "xpos",
    seeds: options.Seeds = "0 1 2",
    quick: QuickOption = False,
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Probe each layer for part-of-speech tags with a linear classifier (Table 6).

    Without --data the treebank is pos/ud_ewt in $ELMOKIT_DATA. Layers are cached: the next run on the same model and
    sentences starts with the probes.

    \b
    Examples:
      elmokit analyze pos --data ud_ewt --tags both --output report
      elmokit analyze pos --data ud_ewt --quick --seeds 0
    """  # noqa: D301
    check_output(output, overwrite)
    folder, numbers = options.find_data(data, "pos/ud_ewt"), options.parse_seeds(seeds)
    kinds: list[TagSet] = ["xpos", "upos"] if tags == "both" else [tags]
    from elmokit.analysis import analyze_pos

    embedder = load_embedder(model, threads, precision)
    with resume_hint(), progress_bars("embedding", "probes") as (on_embedding, on_probe):
        report = analyze_pos(
            embedder,
            folder,
            tags=kinds,
            seeds=numbers,
            max_sentences=QUICK_SENTENCES if quick else None,
            on_embedding=on_embedding,
            on_probe=on_probe,
        )
    finish(report, output, as_json, overwrite)


def ner(
    model: options.Model = options.DEFAULT_MODEL,
    data: Annotated[
        Path | None,
        typer.Option("--data", help="CoNLL-2003: one *eng.train, *eng.testa and *eng.testb; .gz .xz .bz2 work."),
    ] = None,
    seeds: options.Seeds = "0 1 2",
    quick: QuickOption = False,
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Probe each layer for named entities with a linear classifier that tags each token on its own.

    Without --data the folder is ner/conll2003 in $ELMOKIT_DATA. Layers are cached: the next run on the same model and
    sentences starts with the probes.

    \b
    Examples:
      elmokit analyze ner --data conll2003 --output report
      elmokit analyze ner --data conll2003 --quick --seeds 0
    """  # noqa: D301
    check_output(output, overwrite)
    folder, numbers = options.find_data(data, "ner/conll2003"), options.parse_seeds(seeds)
    from elmokit.analysis import analyze_ner

    embedder = load_embedder(model, threads, precision)
    with resume_hint(), progress_bars("embedding", "probes") as (on_embedding, on_probe):
        report = analyze_ner(
            embedder,
            folder,
            seeds=numbers,
            max_sentences=QUICK_SENTENCES if quick else None,
            on_embedding=on_embedding,
            on_probe=on_probe,
        )
    finish(report, output, as_json, overwrite)
