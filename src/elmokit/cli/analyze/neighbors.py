"""`elmokit analyze neighbors`: where else in a corpus a word is used as it is in a sentence."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish, load_embedder
from elmokit.cli.paths import check_exists, check_model
from elmokit.cli.progress import progress_bars
from elmokit.cli.stopped import resume_hint


def neighbors(
    sentence: Annotated[str | None, options.SENTENCE] = None,
    word: Annotated[str | None, typer.Option(help="The token of the sentence to look up.")] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="Instead of a sentence: any string, compared by its characters alone.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option(help="Text to search; .gz .xz .bz2 work.")] = None,
    model: options.Model = options.DEFAULT_MODEL,
    layers: Annotated[
        list[str] | None,
        typer.Option(help="top (default), average, a layer's number, weights (0.2,0.3,0.5) or all. Repeatable."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Number of neighbors.")] = 10,
    position: Annotated[
        int | None, typer.Option(help="The token's position, from 0, if the word occurs more than once.")
    ] = None,
    against: Annotated[
        Literal["word", "tokens"], typer.Option(help="Search occurrences of the same word, or all tokens.")
    ] = "word",
    index: Annotated[
        Path | None, typer.Option(help="Folder of the corpus index; by default in the user's cache.")
    ] = None,
    ann: Annotated[bool, typer.Option("--ann", help="With --against tokens: approximate search with faiss.")] = False,
    input_: options.Input = None,
    threads: options.Threads = None,
    precision: options.IndexPrecision = None,
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Find the nearest contexts of a word in a corpus, layer by layer, and its nearest types without context.

    The corpus is embedded once, into an index on disk (a few KB per token). If that is interrupted, repeat the command.

    \b
    Examples:
      elmokit analyze neighbors "He made a spectacular play." --word play --corpus sentences.txt
      elmokit analyze neighbors "They saw a play." --word play --corpus c.txt --layers 1 --layers 2
      elmokit analyze neighbors --type playfull --corpus corpus.txt
    """  # noqa: D301
    check_output(output, overwrite)
    _check_question(sentence, word, type_, against=against, ann=ann)
    parsed = tuple(map(options.parse_layers, layers or ["top"]))
    _check_places(corpus, index)
    check_model(model)
    from elmokit.analysis import NeighborOptions, analyze_neighbors, analyze_type_neighbors
    from elmokit.analysis.neighbors.build import index_input
    from elmokit.text.input_kind import DEFAULT_INPUT

    own = None if index is None else index_input(index)
    kind = options.settle_input(input_, [] if corpus is None else [corpus], otherwise=own or DEFAULT_INPUT)
    embedder = load_embedder(model, threads, _own_precision(precision, index))
    if type_ is not None:
        report = analyze_type_neighbors(embedder, type_, corpus, index=index, k=k, input=kind)
    else:
        with resume_hint(), progress_bars("building the index", "adding to faiss") as (on_index, on_search):
            report = analyze_neighbors(
                embedder,
                sentence or "",
                word or "",
                corpus,
                index=index,
                position=position,
                options=NeighborOptions(parsed, k, against, ann),
                input=kind,
                on_index=on_index,
                on_search=on_search,
            )
    finish(report, output, as_json, overwrite)


def _own_precision(precision: str | None, index: Path | None) -> str:
    """The precision asked for; that of an existing index if none is asked for, or any."""
    from elmokit.analysis.neighbors.build import index_precision

    own = None if index is None or precision not in (None, "auto") else index_precision(index)
    return own or precision or "float32"


def _check_question(sentence: str | None, word: str | None, type_: str | None, *, against: str, ann: bool) -> None:
    if (sentence is None) == (type_ is None):
        raise typer.BadParameter("give a sentence with --word, or --type, and not both.", param_hint="SENTENCE")
    if (sentence is None) != (word is None):
        raise typer.BadParameter("it names a token of SENTENCE: give both or neither.", param_hint="--word")
    if ann and against == "word":
        raise typer.BadParameter("it is for --against tokens: add that, or leave --ann out.", param_hint="--ann")


def _check_places(corpus: Path | None, index: Path | None) -> None:
    if corpus is None and index is None:
        raise typer.BadParameter("give the text to search, or a finished --index.", param_hint="--corpus")
    if corpus is not None:
        check_exists(corpus, "give the text to search")
    elif index is not None:
        check_exists(index, "give a finished index, or the text to build one from (--corpus)")
