"""Static word vectors: reading them, and the table in which a task model looks up its words.

Notation: W rows of a table, E width of a vector.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmokit.arguments import check_integer
from elmokit.errors import InputError
from elmokit.text.files import open_text

UNKNOWN_ROW = 0
Floats = NDArray[np.float32]


def read_vectors(path: Path, *, max_words: int | None = None) -> dict[str, Floats]:
    """Read vectors in the text format of GloVe or word2vec (whose first line has two numbers), in the file's order.

    Args:
        path: the file, plain or compressed: per line one word, which may contain spaces, and its numbers.
        max_words: number of words to read from the start; None reads all.
    """
    vectors: dict[str, Floats] = {}
    width = 0
    with open_text(path) as lines, np.errstate(over="ignore"):  # infinite numbers are refused below
        for number, line in enumerate(lines, 1):
            parts = line.rstrip("\r\n ").split(" ")
            if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
                width = int(parts[1])
                continue
            width = width or len(parts) - 1
            try:
                vector = np.array(parts[-width:], dtype=np.float32)
            except ValueError:
                vector = np.empty(0, dtype=np.float32)
            if len(parts) <= width or len(vector) != width or not width or not np.isfinite(vector).all():
                raise InputError(
                    f"{path} line {number} is not a word and {width or 'some'} numbers: give vectors in the text "
                    "format of GloVe or word2vec."
                )
            vectors.setdefault(" ".join(parts[:-width]), vector)
            if len(vectors) == max_words:
                break
    if not vectors:
        raise InputError(f"{path} has no vector: give a file of word vectors as text.")
    return vectors


class WordTable:
    """Words and their rows; a missing word is looked up in lower case, then it is the unknown word.

    Args:
        words: the words of rows 1 and up; row 0 is the unknown word.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        self._rows = {word: row for row, word in enumerate(self.words, 1)}
        if len(self._rows) != len(self.words):
            raise InputError("a word occurs twice in a table of words: list each once.")

    def __len__(self) -> int:
        return len(self.words) + 1

    def to_rows(self, tokens: Iterable[str]) -> list[int]:
        """The row of each token."""
        return [self._rows.get(token) or self._rows.get(token.lower(), UNKNOWN_ROW) for token in tokens]


def build_table(
    counts: Mapping[str, int], files: Sequence[Mapping[str, Floats]], *, width: int, min_count: int, seed: int
) -> tuple[WordTable, Floats]:
    """A table of all words of vector files and the frequent words of a text, with their initial vectors (W, E).

    The vectors of several files are concatenated, with zeros where a file lacks a word. A word without any vector, and
    the unknown word, start at random with the average length of the others.

    Args:
        counts: counts of the words of the training text.
        files: vectors from `read_vectors`.
        width: E if there is no file.
        min_count: minimum count of a word without a vector.
        seed: random seed of the initial vectors.
    """
    check_integer("width", width, at_least=1)
    check_integer("min_count", min_count, at_least=1)
    widths = [len(next(iter(file.values()))) for file in files]
    known = dict.fromkeys(word for file in files for word in file)
    lowered = {word for word in counts if word not in known and word.lower() in known}
    own = (word for word, count in counts.items() if count >= min_count and word not in known and word not in lowered)
    words = [*known, *sorted(own)]
    random = np.random.default_rng(np.random.SeedSequence([seed, len(words)]))
    vectors = np.zeros((len(words) + 1, sum(widths) or width), dtype=np.float32)  # (W, E)
    start = 0
    for file, size in zip(files, widths, strict=True):
        for row, word in enumerate(words, 1):
            if (vector := file.get(word)) is not None:
                vectors[row, start : start + size] = vector
        start += size
    scale = float(vectors[1 : len(known) + 1].std()) if known else 0.1
    empty = [0, *range(len(known) + 1, len(words) + 1)]
    vectors[empty] = random.normal(0, scale, (len(empty), vectors.shape[1]))
    return WordTable(words), vectors
