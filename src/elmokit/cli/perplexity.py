"""`elmokit perplexity`, `score` and `substitutes`: what a model expects of text."""

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from elmokit.cli.input_option import InputOption, settle_input
from elmokit.cli.model_option import DEFAULT_MODEL

ModelOption = Annotated[str, typer.Option(help="A model with a softmax: a path, mini (in the package), a Hub id …")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def perplexity(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model with a softmax.")],
    files: Annotated[list[str], typer.Argument(metavar="FILES…", help="Text files or globs; .gz .xz .bz2 work.")],
    input_: InputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Full-softmax perplexity of a text, forward, backward and average, with the state carried and reset.

    \b
    Examples:
      elmokit perplexity my-model sentences.txt
      elmokit perplexity run/model 'heldout/*.txt.xz' --json
    """  # noqa: D301
    from elmokit.formats import load
    from elmokit.training.corpus import find_files
    from elmokit.training.perplexity import read_text
    from elmokit.training.pretrain import evaluate_both

    paths = find_files(files)
    sentences = read_text(paths, input=settle_input(input_, paths))
    found = evaluate_both(load(model), sentences)
    if as_json:
        typer.echo(json.dumps(found))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("state", "forward", "backward", "average", "average, known words")
    for state, figures in found.items():
        table.add_row(
            state,
            f"{figures['forward']['perplexity']:.2f}",
            f"{figures['backward']['perplexity']:.2f}",
            f"{figures['average']:.2f}",
            f"{figures['average_known']:.2f}",
        )
    Console().print(table)
    any_state = next(iter(found.values()))
    typer.echo(
        f"{any_state['num_predictions']:,} predictions a direction in {any_state['num_sentences']:,} sentences; "
        f"vocabulary of {any_state['vocab_size']:,}, {any_state['oov_rate']:.2%} of the words unknown"
    )


def score(
    source: Annotated[str, typer.Argument(metavar="INPUT", help="One text per line; .gz .xz .bz2 work; - is stdin.")],
    model: ModelOption = DEFAULT_MODEL,
    input_: InputOption = None,
    errors: Annotated[
        Literal["strict", "replace"], typer.Option(help="At bytes that are not UTF-8: stop, or put U+FFFD.")
    ] = "strict",
    as_json: JsonOption = False,
) -> None:
    """Log-probability of every token by each direction, a sentence at a time from the zero state.

    \b
    Examples:
      elmokit score sentences.txt
      cat sentences.txt | elmokit score - --model my-model --json | head -n 1
    """  # noqa: D301
    from elmokit.embedding.lines import LineReader, check_readable
    from elmokit.formats import load
    from elmokit.text.input_kind import actual_input, watched
    from elmokit.text.vocabulary import BEGIN, END
    from elmokit.training.corpus import split_line
    from elmokit.training.perplexity import score_sentences

    check_readable(source)
    bilm = load(model)
    known = bilm.vocabulary or ()
    numbers: deque[int] = deque()

    paths = [] if source == "-" else [Path(source)]
    kind = settle_input(input_, paths, look=False)
    for path in paths:
        kind = actual_input(path, kind)

    def sentences() -> Iterator[list[str]]:
        reader = LineReader(source, errors=errors)
        for line_number, line in enumerate(watched(reader, kind, reader.name)):
            for tokens in split_line(line, kind) or [[]]:
                numbers.append(line_number)
                yield tokens

    for found in score_sentences(bilm, sentences()):
        number, ahead, back = numbers.popleft(), found.forward.tolist(), found.backward.tolist()
        if as_json:
            unknown = [token for token in found.tokens if token not in known]
            entry = {"line": number, "tokens": found.tokens, "forward": ahead, "backward": back}
            typer.echo(json.dumps({**entry, "perplexity": found.perplexity, "unknown": unknown}, ensure_ascii=False))
            continue
        typer.echo(f"# {number}: perplexity {found.perplexity:.2f}")
        columns = ([BEGIN, *found.tokens, END], ["", *map("{:.3f}".format, ahead)], [*map("{:.3f}".format, back), ""])
        for row in zip(*columns, strict=True):
            typer.echo("\t".join(row))


def substitutes(
    sentence: Annotated[
        str, typer.Argument(help="The sentence: raw text, or tokens between spaces with --input tokens.")
    ],
    position: Annotated[int, typer.Option(help="The token's place, from 0.")],
    model: ModelOption = DEFAULT_MODEL,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Words to give.")] = 10,
    input_: InputOption = None,
    as_json: JsonOption = False,
) -> None:
    """The words that both directions expect at a place of a sentence.

    \b
    Examples:
      elmokit substitutes "The play was naïve." --position 1
      elmokit substitutes "The play was naïve ." --position 3 --input tokens --model my-model
    """  # noqa: D301
    from elmokit.errors import InputError
    from elmokit.formats import load
    from elmokit.training.corpus import split_line
    from elmokit.training.substitutes import find_substitutes

    sentences = split_line(sentence, settle_input(input_))
    if len(sentences) != 1:
        raise InputError(f"the text has {len(sentences)} sentences: give one.")
    found = find_substitutes(load(model), sentences[0], position, number=number)
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in found], ensure_ascii=False))
        return
    for one in found:
        typer.echo(f"{one.word}\t{one.score:.3f}\t{one.forward:.3f}\t{one.backward:.3f}")
