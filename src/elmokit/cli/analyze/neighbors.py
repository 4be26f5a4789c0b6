"""`elmokit analyze neighbors`: where else in a corpus a word is used as it is in a sentence."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from elmokit.cli.analyze.options import (
    JsonOption,
    OutputOption,
    OverwriteOption,
    ThreadsOption,
    check_output,
    finish,
    load_embedder,
)
from elmokit.cli.input_option import InputOption, settle_input
from elmokit.cli.layers import parse_layers
from elmokit.cli.model_option import DEFAULT_MODEL, ModelOption
from elmokit.cli.paths import check_exists, check_model
from elmokit.cli.progress import progress_bar
from elmokit.cli.stopped import resume_hint

if TYPE_CHECKING:
    from elmokit.analysis.neighbors.index import NeighborIndex, Types
    from elmokit.analysis.report import Report
    from elmokit.embedding.embedder import Embedder
    from elmokit.embedding.pooling import Layers
    from elmokit.text.input_kind import InputKind


def neighbors(
    sentence: Annotated[
        str | None,
        typer.Argument(
            metavar="SENTENCE", help="The sentence: raw text, or space-separated tokens with --input tokens."
        ),
    ] = None,
    word: Annotated[str | None, typer.Option(help="The token of the sentence to look up.")] = None,
    type_: Annotated[
        str | None, typer.Option("--type", help="Instead of a sentence: any string, compared by its characters alone.")
    ] = None,
    corpus: Annotated[Path | None, typer.Option(help="Text to search; .gz .xz .bz2 work.")] = None,
    model: ModelOption = DEFAULT_MODEL,
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
    input_: InputOption = None,
    threads: ThreadsOption = None,
    output: OutputOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
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
    parsed = tuple(map(parse_layers, layers or ["top"]))
    _check_places(corpus, index)
    check_model(model)
    from elmokit.analysis.neighbors.build import index_input
    from elmokit.text.input_kind import DEFAULT_INPUT

    own = None if index is None else index_input(index)
    kind = settle_input(input_, [] if corpus is None else [corpus], otherwise=own or DEFAULT_INPUT)
    text = _Text(corpus, index, kind)
    if type_ is not None:
        report = _type_report(type_, k, text, model, threads)
    else:
        question = _Question(sentence or "", word or "", position, parsed, k, against, ann)
        report = _context_report(question, text, model, threads)
    finish(report, output, as_json, overwrite)


class _Text(NamedTuple):
    """What is searched."""

    corpus: Path | None
    folder: Path | None
    kind: "InputKind"


class _Question(NamedTuple):
    """The options of a query for a word in a sentence."""

    sentence: str
    word: str
    position: int | None
    layers: "tuple[Layers, ...]"
    k: int
    against: Literal["word", "tokens"]
    ann: bool


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


def _type_report(type_: str, k: int, text: _Text, model: str, threads: int | None) -> "Report":
    """The nearest types of a string, without context."""
    from elmokit.analysis.neighbors.types import find_type_neighbors, types_report

    embedder = load_embedder(model, threads)
    types = _types(embedder, *text)
    return types_report(type_, types, find_type_neighbors(embedder, types, type_, k))


def _context_report(question: _Question, text: _Text, model: str, threads: int | None) -> "Report":
    """The nearest contexts of a word in a sentence."""
    from elmokit.analysis.neighbors.contexts import (
        NeighborOptions,
        find_neighbors,
        locate_word,
        name_mixes,
        neighbors_report,
    )
    from elmokit.errors import InputError
    from elmokit.text.lines import split_line

    sentences = split_line(question.sentence, text.kind)
    if len(sentences) != 1:
        raise InputError(f"the text has {len(sentences)} sentences: give one.")
    place = locate_word(sentences[0], question.word, question.position, input=text.kind)
    embedder = load_embedder(model, threads)
    if text.kind == "text":
        embedder.check_tokenizer()
    name_mixes(embedder, question.layers)
    options = NeighborOptions(question.layers, question.k, question.against, question.ann)
    opened = _open(embedder, *text)
    with progress_bar("adding to faiss") as report:
        return neighbors_report(find_neighbors(opened, embedder, sentences[0], place, options, report=report))


def _open(embedder: "Embedder", corpus: Path | None, folder: Path | None, kind: "InputKind") -> "NeighborIndex":
    from elmokit.analysis.neighbors.build import open_index

    with resume_hint(), progress_bar("building the index") as report:
        return open_index(embedder, corpus, folder, input=kind, report=report)


def _types(embedder: "Embedder", corpus: Path | None, folder: Path | None, kind: "InputKind") -> "Types":
    """Types from an existing index, else from the corpus; no index is built for types alone."""
    from elmokit.analysis.neighbors.build import find_index, open_index
    from elmokit.analysis.neighbors.index import is_finished
    from elmokit.analysis.neighbors.types import corpus_types

    if corpus is None or (folder is not None and is_finished(folder)):
        return open_index(embedder, corpus, folder, input=kind).types
    found = find_index(embedder, corpus, input=kind)
    return corpus_types(embedder, corpus, input=kind) if found is None else found.types
