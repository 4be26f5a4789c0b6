"""`elmokit perplexity`, `score` and `substitutes`: what a model expects of text."""

import json
import os.path
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmokit.cli import options
from elmokit.cli.paths import check_model
from elmokit.cli.progress import progress_bar
from elmokit.wording import counted

if TYPE_CHECKING:
    from elmokit.scoring.sentences import SentenceScore
    from elmokit.text.vocabulary import Vocabulary

ScoringModelOption = Annotated[
    str, typer.Option(help="A model with a softmax: a path, mini (in the package), a Hub id …")
]


def perplexity(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model with a softmax.")],
    files: Annotated[list[str], typer.Argument(metavar="FILES", help="Text files or globs; .gz .xz .bz2 work.")],
    input_: options.Input = None,
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    as_json: options.Json = False,
) -> None:
    """Compute the full-softmax perplexity of a text: forward, backward and average, with the state carried and reset.

    \b
    Examples:
      elmokit perplexity my-model sentences.txt
      elmokit perplexity run/model 'heldout/*.txt.xz' --json
    """  # noqa: D301
    from elmokit.text.files import find_files

    _refuse_swapped(model, files)
    paths = find_files(files)
    check_model(model)
    from elmokit.formats import load
    from elmokit.scoring.perplexity import evaluate_both
    from elmokit.text.input_kind import has_raw_text
    from elmokit.text.lines import read_text
    from elmokit.text.tokenizers import check_raw_text

    options.use_threads(threads)
    kind = options.settle_input(input_, paths)
    sentences = read_text(paths, input=kind)
    bilm = load(model)
    if has_raw_text(paths, kind):
        check_raw_text(bilm.config.tokenizer)
    with progress_bar("measuring") as report:
        found = evaluate_both(bilm, sentences, threads=threads, precision=precision, report=report)
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
        f"{counted(any_state['num_predictions'], 'prediction')} per direction in "
        f"{counted(any_state['num_sentences'], 'sentence')}; "
        f"vocabulary of {any_state['vocab_size']:,}, {any_state['oov_rate']:.2%} of the words unknown"
    )


def _refuse_swapped(model: str, files: list[str]) -> None:
    """Refuse text and model in the wrong order."""
    import glob
    import shlex

    from elmokit.errors import InputError
    from elmokit.formats import packaged
    from elmokit.recognize import MODEL, RUN, TEXTS, identify

    def family(name: str) -> str | None:
        kind = identify(name)
        return kind.family if kind else None

    is_text = family(model) in TEXTS or (not os.path.exists(model) and bool(glob.glob(model, recursive=True)))
    found = next((name for name in files if name in packaged.NAMES or family(name) in (MODEL, RUN)), None)
    if is_text and found is not None:
        right = shlex.join([found, model, *(name for name in files if name != found)])
        raise InputError(f"{model} is text and {found} is a model: give the model first, `elmokit perplexity {right}`.")


def score(
    source: options.Source,
    model: ScoringModelOption = options.DEFAULT_MODEL,
    input_: options.Input = None,
    errors: options.Errors = "strict",
    threads: options.Threads = None,
    precision: options.Precision = "float32",
    as_json: options.Json = False,
) -> None:
    """Compute the log-probability of every token in each direction; every sentence starts from the zero state.

    Results come in line order, while input is still being read. Blank lines are skipped, but counted: the number of a
    result is that of its line, from 0.

    \b
    Examples:
      elmokit score sentences.txt
      cat sentences.txt | elmokit score - --model my-model --json | head -n 1
    """  # noqa: D301
    from elmokit.embedding.lines import LineReader, check_readable

    check_readable(source)
    check_model(model)
    from elmokit.formats import load
    from elmokit.scoring.sentences import score_sentences
    from elmokit.text.input_kind import actual_input, watched
    from elmokit.text.lines import split_line
    from elmokit.text.tokenizers import check_raw_text

    options.use_threads(threads)
    bilm = load(model)
    reader = LineReader(source, errors=errors)
    numbers: deque[int] = deque()

    paths = [] if source == "-" else [Path(source)]
    kind = options.settle_input(input_, paths, look=False)
    for path in paths:
        kind = actual_input(path, kind)
    if kind == "text":
        check_raw_text(bilm.config.tokenizer)

    def sentences() -> Iterator[list[str]]:
        for line_number, line in enumerate(watched(reader, kind, reader.name)):
            for tokens in split_line(line, kind):
                numbers.append(line_number)
                yield tokens

    with progress_bar("scoring", beside_output=True) as report:
        for found in score_sentences(bilm, sentences(), threads=threads, precision=precision):
            number = numbers.popleft()
            typer.echo(_as_json(number, found, bilm.vocabulary) if as_json else _as_table(number, found))
            if report is not None and (share := reader.share) is not None:
                report(round(1000 * share), 1000)


def _as_json(number: int, found: "SentenceScore", vocabulary: "Vocabulary | None") -> str:
    entry = {
        "line": number,
        "tokens": found.tokens,
        "forward": found.forward.tolist(),
        "backward": found.backward.tolist(),
        "perplexity": found.perplexity,
        "unknown": [token for token in found.tokens if vocabulary is None or token not in vocabulary],
    }
    return json.dumps(entry, ensure_ascii=False)


def _as_table(number: int, found: "SentenceScore") -> str:
    from elmokit.text.vocabulary import BEGIN, END

    forward, backward = ([f"{value:.3f}" for value in own.tolist()] for own in (found.forward, found.backward))
    columns = ([BEGIN, *found.tokens, END], ["", *forward], [*backward, ""])
    rows = ("\t".join(row) for row in zip(*columns, strict=True))
    return "\n".join([f"# {number}: perplexity {found.perplexity:.2f}", "token\tforward\tbackward", *rows])


def substitutes(
    sentence: Annotated[str, options.SENTENCE],
    position: Annotated[int, typer.Option(help="The token's position, from 0.")],
    model: ScoringModelOption = options.DEFAULT_MODEL,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Number of words.")] = 10,
    input_: options.Input = None,
    as_json: options.Json = False,
) -> None:
    """List the words that both directions predict at a position in a sentence.

    \b
    Examples:
      elmokit substitutes "The play was naïve." --position 1
      elmokit substitutes "The play was naïve ." --position 3 --input tokens --model my-model
    """  # noqa: D301
    from elmokit.errors import InputError
    from elmokit.text.lines import split_line

    kind = options.settle_input(input_)
    sentences = split_line(sentence, kind)
    if len(sentences) != 1:
        raise InputError(f"the text has {len(sentences)} sentences: give one.")
    check_model(model)
    from elmokit.formats import load
    from elmokit.scoring.substitutes import find_substitutes
    from elmokit.text.tokenizers import check_raw_text

    bilm = load(model)
    if kind == "text":
        check_raw_text(bilm.config.tokenizer)
    found = find_substitutes(bilm, sentences[0], position, number=number)
    if as_json:
        typer.echo(json.dumps([one._asdict() for one in found], ensure_ascii=False))
        return
    typer.echo("word\tscore\tforward\tbackward")
    for one in found:
        typer.echo(f"{one.word}\t{one.score:.3f}\t{one.forward:.3f}\t{one.backward:.3f}")
