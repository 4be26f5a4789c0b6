"""Ambiguous words in sentences of books, and their vectors.

Notation: n occurrences of a word, L layers, D width of a vector.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import elmokit

Floats = NDArray[np.floating[Any]]
SENTENCES = Path(__file__).with_name("polysemy.tsv")


class Occurrence(NamedTuple):
    """A word in a sentence of a book, with the sense that a reader gave it."""

    word: str
    sense: str
    sentence: str
    source: str
    held_out: str
    """"yes" if the packaged model was not trained on the book."""

    @property
    def tokens(self) -> list[str]:
        """The sentence's tokens."""
        return [token.text for token in elmokit.tokenize(self.sentence, split_sentences=False)[0]]

    @property
    def around(self) -> tuple[str, str]:
        """The text before the word and after it, as it is written."""
        (tokens,) = elmokit.tokenize(self.sentence, split_sentences=False)
        place = next(token for token in tokens if token.text == self.word)
        return self.sentence[: place.start], self.sentence[place.end :]


def read_words(path: Path = SENTENCES) -> dict[str, list[Occurrence]]:
    """The occurrences of each word, in the order of the file."""
    words: dict[str, list[Occurrence]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            words.setdefault(row["word"], []).append(Occurrence(**row))
    return words


def embed_word(embedder: elmokit.Embedder, occurrences: Sequence[Occurrence]) -> Floats:
    """(L, n, D) vectors of length 1, so that their products are cosines."""
    tokens = [occurrence.tokens for occurrence in occurrences]
    places = [line.index(occurrence.word) for line, occurrence in zip(tokens, occurrences, strict=True)]
    layers = [vectors[:, place] for vectors, place in zip(embedder.embed(tokens), places, strict=True)]
    stacked = np.stack(layers, axis=1)  # (L, n, D)
    return np.asarray(stacked / np.linalg.norm(stacked, axis=-1, keepdims=True))
