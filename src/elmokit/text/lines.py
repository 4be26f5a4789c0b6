"""Sentences of lines and files, as lists of tokens."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from elmokit.arguments import check_path
from elmokit.text.files import open_text
from elmokit.text.input_kind import Input, actual_input, check_input
from elmokit.text.tokenize import tokenize


def split_line(line: str, input: Input) -> list[list[str]]:
    """The sentences of a line: its tokens as they are between white space, or what the tokenizer finds in raw text."""
    if input == "tokens":
        tokens = line.split()
        return [tokens] if tokens else []
    return [[token.text for token in sentence] for sentence in tokenize(line)]


def read_sentences(path: Path, *, input: Input, errors: str = "strict") -> Iterator[list[str]]:
    """Read the sentences of a file, plain or compressed, as lists of tokens; blank lines give none.

    Args:
        path: The file.
        input: "tokens" if a line is a sentence of tokens between white space, "text" if it is running text of any
            number of sentences. Shards of `write_shards` hold tokens and are read as such in any case.
        errors: What to do with bytes that are not UTF-8, as in `open`.
    """
    check_input(input)
    path = check_path("path", path)
    kind = actual_input(path, input)
    with open_text(path, errors=errors) as lines:
        for line in lines:
            yield from split_line(line, kind)


def read_text(paths: Iterable[Path], *, input: Input, max_predictions: int | None = None) -> list[str]:
    """The sentences of files, in order, as tokens between single spaces; at most about so many predictions."""
    sentences: list[str] = []
    total = 0
    for path in paths:
        for tokens in read_sentences(path, input=input):
            if max_predictions is not None and total >= max_predictions:
                return sentences
            sentences.append(" ".join(tokens))
            total += len(tokens) + 1
    return sentences
