"""Read the sentences and passages of a file, each with its place. A passage is consecutive sentences kept together."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from elmokit.errors import InputError
from elmokit.text.files import open_text
from elmokit.text.input_kind import InputKind, actual_input
from elmokit.text.lines import split_line

_CHUNK_CHARACTERS = 1 << 20


class Stretch(NamedTuple):
    """The lines of a file that begin within a range of its characters; a line is never divided."""

    file: int
    """Number of the file in the corpus."""
    begin: int = 0
    end: int | None = None
    """None means the end of the file."""


class Place(NamedTuple):
    """Position of a sentence in a list of stretches: number of the stretch, line of the file, sentence of the line."""

    file: int = 0
    line: int = 0
    sentence: int = 0


class Located(NamedTuple):
    """A sentence and its position; lines and sentences are counted from 0."""

    line: int
    sentence: int
    begin: int
    """Characters of the file before it; the characters of a line are divided equally among its sentences."""
    end: int
    tokens: list[str]


def read_located(
    path: Path, *, input: InputKind, stretch: Stretch | None = None, start: Place | None = None
) -> Iterator[Located]:
    """Read the sentences of a file, or of a stretch of it, starting at a place."""
    _, begin, end = stretch or Stretch(0)
    _, start_line, start_sentence = start or Place()
    input = actual_input(path, input)
    place = 0
    with open_text(path) as lines:
        for number, line in enumerate(lines):
            if end is not None and place >= end:
                return
            length = len(line)
            if number >= start_line and place >= begin:
                sentences = split_line(line, input)
                count = len(sentences)
                for index, tokens in enumerate(sentences):
                    if number > start_line or index >= start_sentence:
                        ends = place + length * (index + 1) // count
                        yield Located(number, index, place + length * index // count, ends, tokens)
            place += length


class Passage(NamedTuple):
    """Consecutive sentences, and where they begin and end."""

    line: int
    sentence: int
    begin: int
    """Characters of the file before it."""
    end: int
    text: bytes
    """UTF-8, one sentence per line, tokens separated by single spaces."""


def read_passages(
    path: Path, *, input: InputKind, num_sentences: int, stretch: Stretch | None = None, start: Place | None = None
) -> Iterator[Passage]:
    """Read the passages of a file or stretch.

    A passage ends after `num_sentences` sentences, at a line without a sentence, or at the end of the file or stretch.

    `start` must be the beginning of a passage.
    """
    passage: list[bytes] = []
    first = last = Located(0, 0, 0, 0, [])
    for sentence in read_located(path, input=input, stretch=stretch, start=start):
        if passage and (len(passage) == num_sentences or sentence.line > last.line + 1):
            yield Passage(first.line, first.sentence, first.begin, last.end, b"\n".join(passage))
            passage = []
        if not passage:
            first = sentence
        passage.append(" ".join(sentence.tokens).encode())
        last = sentence
    if passage:
        yield Passage(first.line, first.sentence, first.begin, last.end, b"\n".join(passage))


def count_characters(path: Path) -> int:
    """Number of characters of a text, including line ends."""
    total = 0
    with open_text(path) as text:
        while chunk := text.read(_CHUNK_CHARACTERS):
            total += len(chunk)
    return total


def file_size(path: Path) -> int:
    """Size of a regular file in bytes.

    Raises:
        InputError: If there is no such file.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not stat.S_ISREG(status.st_mode):
        raise InputError(f"{path} is not a regular file: a corpus is read again and again, so give files.")
    return status.st_size


@contextmanager
def unchanged(path: Path, size: int) -> Iterator[None]:
    """Check that a file of a run still has its size while it is read; errors say that the run can be resumed."""
    try:
        if file_size(path) != size:
            raise InputError(f"{path} has changed while it was in use: restore it.")
        yield
    except InputError as error:
        if isinstance(error.__context__, UnicodeDecodeError):
            raise
        text = str(error).removesuffix(".")
        raise InputError(f"{text}; the run can be resumed when the file is back.") from None
