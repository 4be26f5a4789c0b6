"""Read the sentences of lines and files, as lists of tokens."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from elmokit.arguments import check_path
from elmokit.text.files import open_text
from elmokit.text.input_kind import InputKind, actual_input, check_input
from elmokit.text.tokenize import tokenize


def split_line(line: str, input: InputKind) -> list[list[str]]:
    """The sentences of a line: split at white space if it has tokens, otherwise tokenized."""
    if input == "tokens":
        tokens = line.split()
        return [tokens] if tokens else []
    return [[token.text for token in sentence] for sentence in tokenize(line)]


def read_sentences(path: Path, *, input: InputKind, errors: str = "strict") -> Iterator[list[str]]:
    """Read the sentences of a file, plain or compressed, as lists of tokens; blank lines give none.

    Args:
        path: File to read.
        input: "tokens" if each line is one sentence of tokens separated by white space, "text" if it is running text
            with any number of sentences. Shards of `write_shards` are always read as tokens.
        errors: What to do about invalid UTF-8, as in `open`.
    """
    check_input(input)
    path = check_path("path", path)
    kind = actual_input(path, input)
    with open_text(path, errors=errors) as lines:
        for line in lines:
            yield from split_line(line, kind)


def read_text(paths: Iterable[Path], *, input: InputKind, max_predictions: int | None = None) -> list[str]:
    """The sentences of files, in order, as tokens separated by single spaces; about `max_predictions` at most."""
    sentences: list[str] = []
    total = 0
    for path in paths:
        for tokens in read_sentences(path, input=input):
            if max_predictions is not None and total >= max_predictions:
                return sentences
            sentences.append(" ".join(tokens))
            total += len(tokens) + 1
    return sentences
