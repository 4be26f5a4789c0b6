"""`elmokit corpus`: look a corpus through, count its vocabulary, shard it, before a model is trained on it."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from elmokit.cli import options
from elmokit.cli.commands import Commands
from elmokit.cli.progress import progress_bar
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.corpus.check import CorpusReport

corpus = Commands("corpus", "Prepare a corpus for training: check it, count its vocabulary, shard it.")

Files = Annotated[
    list[str], typer.Argument(metavar="FILES", help="Text files or quoted globs, also **; .gz .xz .bz2 work.")
]
Processes = Annotated[int | None, typer.Option(min=1, help="Number of tokenizer processes; by default one per core.")]


@corpus.command()
def check(
    files: Files,
    vocab: Annotated[
        Path | None, typer.Option(help="Report how much of the corpus this vocabulary file covers.")
    ] = None,
    heldout: Annotated[
        list[str] | None,
        typer.Option(help="Files or a quoted glob whose sentences should not be in FILES; repeatable."),
    ] = None,
    input_: options.Input = None,
    processes: Processes = None,
    as_json: options.ResultJson = False,
) -> None:
    """Report the size of a corpus and its problems: invalid bytes, overlong tokens, duplicates, held-out sentences.

    \b
    Examples:
      elmokit corpus check sentences.txt
      elmokit corpus check 'data/train-*.txt.gz' --vocab vocab.txt --heldout 'data/heldout-*.txt.gz' --json
    """  # noqa: D301
    from elmokit.corpus.check import check_corpus
    from elmokit.text.files import find_files
    from elmokit.text.vocabulary import read_vocabulary

    paths, others = find_files(files), find_files(heldout or [])
    kind = options.settle_input(input_, paths)
    vocabulary = None if vocab is None else read_vocabulary(vocab)
    with progress_bar("checking") as report:
        found = check_corpus(
            paths, input=kind, vocabulary=vocabulary, heldout=others, processes=processes, progress=report
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
    else:
        _print_report(found)


@corpus.command()
def vocab(
    files: Files,
    output: Annotated[
        Path, typer.Option(*options.OUTPUT_NAMES, help="The vocabulary file to write: one word per line.")
    ],
    min_count: Annotated[int, typer.Option(min=1, help="Minimum count of a word.")] = 1,
    max_size: Annotated[
        int | None, typer.Option(min=4, help="Maximum number of words, including <S> </S> <UNK>; by default all.")
    ] = None,
    input_: options.Input = None,
    errors: options.Errors = "strict",
    processes: Processes = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing vocabulary file.")] = False,
    as_json: options.ResultJson = False,
) -> None:
    """Write the vocabulary of a corpus: <S> </S> <UNK>, then the words by descending count.

    \b
    Examples:
      elmokit corpus vocab sentences.txt --output vocab.txt
      elmokit corpus vocab 'data/**/*.txt' --output vocab.txt --max-size 100000 --min-count 3
    """  # noqa: D301
    from elmokit.corpus.counting import build_vocabulary, check_vocabulary_output, count_words, write_vocabulary_atomic
    from elmokit.text.files import find_files
    from elmokit.text.vocabulary import UNKNOWN

    paths = find_files(files)
    _check_folder(output)
    check_vocabulary_output(output, inputs=paths, overwrite=overwrite)
    kind = options.settle_input(input_, paths)
    with progress_bar("counting") as report:
        counts = count_words(paths, input=kind, processes=processes, errors=errors, progress=report)
    vocabulary = build_vocabulary(counts, min_count=min_count, max_size=max_size)
    write_vocabulary_atomic(vocabulary, output, overwrite=overwrite)
    num_tokens = counts.total()
    coverage = sum(counts[word] for word in vocabulary.tokens if word != UNKNOWN) / num_tokens
    if as_json:
        summary = {"output": str(output), "vocab_size": len(vocabulary), "num_distinct": len(counts)}
        typer.echo(json.dumps(summary | {"num_tokens": num_tokens, "coverage": coverage}))
    else:
        typer.echo(
            f"wrote {output}: {counted(len(vocabulary), 'entry', 'entries')}, which cover {coverage:.2%} of "
            f"{counted(num_tokens, 'token')}",
            err=True,
        )


@corpus.command()
def shard(
    files: Files,
    output: Annotated[Path, typer.Option(*options.OUTPUT_NAMES, help="The folder to write.")],
    shards: Annotated[
        int, typer.Option(min=1, help="Number of files to distribute the sentences over; at most one per sentence.")
    ],
    compression: Annotated[Literal["xz", "gz", "none"], typer.Option(help="Compression of the shards.")] = "xz",
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the assignment of sentences to shards.")] = 0,
    passage: Annotated[
        int, typer.Option(min=1, help="Number of successive sentences that stay together; an empty line ends a group.")
    ] = 1,
    input_: options.Input = None,
    errors: options.Errors = "strict",
    processes: Processes = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing folder of shards.")] = False,
    as_json: options.ResultJson = False,
) -> None:
    """Write a corpus as tokenized sentences, one per line, distributed at random over files, each a sample of it.

    \b
    Examples:
      elmokit corpus shard sentences.txt --output shards --shards 2
      elmokit corpus shard 'data/*.txt' --output shards --shards 100 --compression gz
    """  # noqa: D301
    from elmokit.corpus.shards import write_shards
    from elmokit.text.files import find_files

    paths = find_files(files)
    kind = options.settle_input(input_, paths)
    with progress_bar("writing") as report:
        done = write_shards(
            paths,
            output,
            num_shards=shards,
            input=kind,
            compression=compression,
            seed=seed,
            passage_sentences=passage,
            processes=processes,
            errors=errors,
            overwrite=overwrite,
            progress=report,
        )
    if as_json:
        typer.echo(json.dumps({"output": str(output)} | done.to_dict()))
    else:
        typer.echo(
            f"wrote {output}: {counted(done.num_sentences, 'sentence')}, {counted(done.num_tokens, 'token')} in "
            f"{counted(shards, 'file')}",
            err=True,
        )


def _check_folder(output: Path) -> None:
    """Refuse an output path that cannot be written, before hours are spent on its content."""
    from elmokit.filesystem import check_name

    parent = check_name(output).parent
    if output.is_dir() or not parent.is_dir():
        raise typer.BadParameter(f"{output} is not a file name in an existing folder.", param_hint="--output")


def _print_report(found: "CorpusReport") -> None:
    """A table for people, with one row per available figure."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "number", "where first", box=None, header_style="bold")
    table.columns[1].justify = "right"
    numbers = {name: value for name, value in vars(found).items() if isinstance(value, int | float)}
    for name, value in numbers.items():
        text = f"{value:.4%}" if isinstance(value, float) else f"{value:,}"
        table.add_row(name.removeprefix("num_").replace("_", " "), text, "")
    for name, finding in vars(found.findings).items():
        style = "yellow" if finding.count else None
        table.add_row(name.replace("_", " "), f"{finding.count:,}", "\n".join(finding.places), style=style)
    console = Console()
    console.print(table)
    for note in found.notes:
        console.print(note, markup=False)
