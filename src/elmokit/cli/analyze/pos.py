"""`elmokit analyze pos`: what each layer knows of parts of speech (Table 6)."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli.analyze.data_folder import find_data
from elmokit.cli.analyze.options import (
    JsonOption,
    OutputOption,
    OverwriteOption,
    ThreadsOption,
    check_output,
    finish,
    load_embedder,
)
from elmokit.cli.model_option import DEFAULT_MODEL, ModelOption
from elmokit.cli.progress import progress_bars
from elmokit.cli.stopped import resume_hint
from elmokit.cli.task_options import SeedsOption, parse_seeds

if TYPE_CHECKING:
    from elmokit.analysis.probes.pos import TagSet

QUICK_SENTENCES = 2000
DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="A treebank: one *train.conllu, *dev.conllu and *test.conllu; .gz .xz .bz2 work."),
]
TagsOption = Annotated[
    Literal["xpos", "upos", "both"],
    typer.Option("--tags", help="The treebank's own tags (xpos), universal tags (upos), or both."),
]


def pos(
    model: ModelOption = DEFAULT_MODEL,
    data: DataOption = None,
    tags: TagsOption = "xpos",
    seeds: SeedsOption = "0 1 2",
    quick: Annotated[
        bool, typer.Option("--quick", help=f"Only the first {QUICK_SENTENCES:,} sentences of each file.")
    ] = False,
    threads: ThreadsOption = None,
    output: OutputOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
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
    folder, numbers = find_data(data, "pos/ud_ewt"), parse_seeds(seeds)
    kinds: list[TagSet] = ["xpos", "upos"] if tags == "both" else [tags]
    from elmokit.analysis.probes.analyze import analyze_pos

    limit = QUICK_SENTENCES if quick else None
    embedder = load_embedder(model, threads)
    with resume_hint(), progress_bars("embedding", "probes") as (on_embedding, on_probe):
        report = analyze_pos(
            embedder,
            folder,
            model=model,
            tags=kinds,
            seeds=numbers,
            max_sentences=limit,
            on_embedding=on_embedding,
            on_probe=on_probe,
        )
    finish(report, output, as_json, overwrite)
