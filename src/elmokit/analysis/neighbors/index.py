"""The neighbor index: the layers of every token of a corpus on disk, and where each word occurs.

    vectors/             float16 layers, one record per sentence, in a vector store (`elmokit.embedding.store`)
    words/types          distinct tokens, one per line, in order of first occurrence
    words/type_vectors   (V, D) float16: layer 0 of each
    words/starts         (V + 1,) int64: the start of each type's rows in words/rows
    words/rows           (N,) int64: rows of the store by type, ascending within a type
    words/lines          (S,) int64: the corpus line of each sentence, from 1
    approximate/         faiss indexes, one per mix of layers, built on first use (`search`)

`vectors` grows commit by commit while the corpus is embedded; `words` is computed from it and renamed into place.
So an index is finished when `words` exists, and an interrupted build resumes from its last commit.

Notation: N tokens, V types, S sentences, L layers, D width of a vector.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmokit.analysis.occurrence import Occurrence
from elmokit.embedding.records import Vectors
from elmokit.embedding.store import VectorStore
from elmokit.errors import FormatError

VECTORS, WORDS, APPROXIMATE = "vectors", "words", "approximate"
BLOCK = 1024
"""Rows compared at a time: few enough to stay in a core's cache."""
_OPEN_CHUNKS = 4096
"""Memory maps stay open for the next query; the system reclaims their pages when needed."""
INTEGER, HALF = np.dtype("<i8"), np.dtype("<f2")

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Types:
    """The distinct tokens of a corpus."""

    words: list[str]
    """In order of first occurrence."""
    counts: Rows  # (V,)
    vectors: Vectors  # (V, D), layer 0

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The index of each type."""
        return {word: number for number, word in enumerate(self.words)}


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a finished index."""
    return (folder / WORDS).is_dir()


class NeighborIndex:
    """A finished index: memory-mapped layers of all tokens, accessible by row or by word."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = VectorStore(path / VECTORS, open_chunks=_OPEN_CHUNKS)
        self.meta = self.store.meta
        sizes = [manifest.num_rows for manifest in self.store.manifests]
        self._first_rows: Rows = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])  # (chunks + 1,)
        words = self._read_types()
        starts = self._mapped("starts", INTEGER, (len(words) + 1,))
        vectors = self._mapped("type_vectors", HALF, (len(words), self.meta.width or 0))  # (V, D)
        self.types = Types(words, np.diff(starts), vectors)
        self._starts = starts
        self._rows = self._mapped("rows", INTEGER, (self.num_tokens,))  # (N,)
        self._lines = self._mapped("lines", INTEGER, (len(self.store),))  # (S,)

    @property
    def num_tokens(self) -> int:
        """N."""
        return int(self._first_rows[-1])

    @property
    def corpus_sha256(self) -> str:
        """The hash of the corpus."""
        return str(self.meta.extra["corpus_sha256"])

    @property
    def input(self) -> str:
        """Whether the corpus was read as tokens or as text."""
        return str(self.meta.extra.get("input", "tokens"))

    def rows_of(self, word: str) -> Rows:
        """The rows of all occurrences of a word, in corpus order; empty if there are none."""
        number = self.types.numbers.get(word)
        begin, end = (0, 0) if number is None else self._starts[number : number + 2]
        rows: Rows = self._rows[begin:end]
        return rows

    def occurrence(self, row: int) -> Occurrence:
        """The sentence of a row, and its position there."""
        chunk = int(np.searchsorted(self._first_rows, row, side="right")) - 1
        local, offsets = row - self._first_rows[chunk], self.store.row_offsets(chunk)
        place = int(np.searchsorted(offsets, local, side="right")) - 1
        record = self.store.first_record(chunk) + place
        return Occurrence(self.store.tokens(record), int(local - offsets[place]), line=int(self._lines[record]))

    def blocks(self, rows: Rows | None = None) -> Iterator[tuple[Rows, Vectors]]:
        """Rows (n,), all or given ones in ascending order, with layers (n, L, D), at most `BLOCK` at a time."""
        chosen = np.diff(self._first_rows if rows is None else np.searchsorted(rows, self._first_rows))  # (chunks,)
        begin = 0
        for chunk in np.flatnonzero(chosen):
            end = begin + int(chosen[chunk])
            matrix, first = self.store.read_matrix(int(chunk)), int(self._first_rows[chunk])
            for start in range(begin, end, BLOCK):
                stop = min(start + BLOCK, end)
                if rows is None:
                    yield np.arange(start, stop), matrix[start - first : stop - first]
                else:
                    yield rows[start:stop], matrix[rows[start:stop] - first]
            begin = end

    def _read_types(self) -> list[str]:
        path = self.path / WORDS / "types"
        try:
            *words, end = path.read_bytes().decode("utf-8").split("\n")
        except (FileNotFoundError, UnicodeDecodeError):
            words, end = [], ""
        if end or not words:
            raise FormatError(f"{path} is missing or damaged: {_remedy(path)}.")
        return words

    def _mapped(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        path = self.path / WORDS / name
        size = dtype.itemsize * int(np.prod(shape))
        found = path.stat().st_size if path.exists() else 0
        if found != size or not size:
            raise FormatError(f"{path} holds {found:,} bytes instead of {size:,}: {_remedy(path)}.")
        return np.memmap(path, dtype=dtype, mode="r", shape=shape).view(np.ndarray)


def _remedy(path: Path) -> str:
    return f"delete the folder {path.parent} to rebuild it"
