"""`elmokit analyze senses`: how a word is used in a corpus, and how that differs from another one."""

from typing import Annotated

import typer

from elmokit.cli import options
from elmokit.cli.analyze.reports import check_output, finish, load_embedder
from elmokit.cli.paths import check_files, check_model
from elmokit.cli.progress import progress_bar
from elmokit.cli.stopped import resume_hint

_OCCURRENCES, _RANKED_OCCURRENCES = 2000, 50


def senses(
    corpus: Annotated[list[str], typer.Option(help="A file of raw text, or a glob; repeatable.")],
    word: Annotated[
        str | None, typer.Argument(metavar="WORD", help="The word: one token; case does not matter.")
    ] = None,
    against: Annotated[
        list[str] | None, typer.Option(help="Files of a second corpus, to show how the word's use differs.")
    ] = None,
    rank: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Instead of WORD: list the N words whose use differs most.")
    ] = None,
    forms: Annotated[str | None, typer.Option(help="Other forms that count as the word: plays,played.")] = None,
    match_case: Annotated[bool, typer.Option("--match-case", help="Treat Play and play as different words.")] = False,
    groups: Annotated[str, typer.Option(metavar="N|auto", help="Number of groups; auto may find only one.")] = "auto",
    model: options.Model = options.DEFAULT_MODEL,
    layers: Annotated[
        str, typer.Option(help="top, average, a layer's number, one weight per layer (0.2,0.3,0.5), or all.")
    ] = "top",
    max_occurrences: Annotated[
        int | None,
        typer.Option(min=2, help="Occurrences per word and corpus (default 2000, with --rank 50); more are sampled."),
    ] = None,
    min_count: Annotated[int, typer.Option(min=2, help="With --rank: minimum occurrences in each corpus.")] = 20,
    max_words: Annotated[
        int, typer.Option(min=1, help="With --rank: number of words to compare, most frequent first.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    input_: options.Input = None,
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    output: options.ReportFolder = None,
    overwrite: options.ReportOverwrite = False,
    as_json: options.FiguresJson = False,
) -> None:
    """Group the uses of a word in a corpus, with typical and borderline sentences; or compare its use in two corpora.

    Groups are based on the text before and after the word, not on the word itself. Only the sampled sentences are
    embedded, once: their layers stay in the cache (a few KB per token).

    \b
    Examples:
      elmokit analyze senses play --corpus sentences.txt
      elmokit analyze senses play --forms plays,played --corpus 'text/*.xz' --output page
      elmokit analyze senses play --corpus corpus.txt --against later.txt
      elmokit analyze senses --rank 20 --min-count 2 --corpus corpus.txt --against later.txt
    """  # noqa: D301
    check_output(output, overwrite)
    if (word is None) == (rank is None):
        raise typer.BadParameter("give a word, or --rank, and not both.", param_hint="WORD")
    if rank is not None and against is None:
        raise typer.BadParameter("it compares all words of two corpora: add --against.", param_hint="--rank")
    if rank is not None and (forms is not None or match_case or groups != "auto"):
        raise typer.BadParameter(
            "--forms, --match-case and --groups are for a WORD: leave them out.", param_hint="--rank"
        )
    num_groups, parsed = _parse_groups(groups), options.parse_layers(layers)
    check_files(corpus, against)
    check_model(model)
    from elmokit.analysis import Corpus, RankOptions, UsageOptions, analyze_senses, analyze_shifts
    from elmokit.text.input_kind import DEFAULT_INPUT

    kind = input_ or DEFAULT_INPUT
    first = Corpus.find(corpus, kind)
    second = Corpus.find(against, kind) if against else None
    options.settle_input(input_, [*first.paths, *(second.paths if second else ())])
    embedder = load_embedder(model, threads, precision)
    with resume_hint(), progress_bar("embedding") as on_embedding:
        if word is not None:
            own = tuple(dict.fromkeys([word, *filter(None, map(str.strip, (forms or "").split(",")))]))
            usage = UsageOptions(own, match_case, num_groups, parsed, max_occurrences or _OCCURRENCES, seed)
            corpora = (first, second) if second else (first,)
            report = analyze_senses(embedder, corpora, usage, on_embedding=on_embedding)
        else:
            assert rank is not None and second is not None
            chosen = RankOptions(min_count, max_words, max_occurrences or _RANKED_OCCURRENCES, seed)
            report = analyze_shifts(embedder, (first, second), rank, chosen, layers=parsed, on_embedding=on_embedding)
    finish(report, output, as_json, overwrite)


def _parse_groups(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is not a number of groups: give 1 or more, or auto.", param_hint="--groups")
    return int(text)
