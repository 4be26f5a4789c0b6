"""The nearest rows by cosine: exact, over blocks of float16 layers, or among candidates from faiss.

Exact search compares all rows in float32, then the possible nearest ones in float64: the result does not depend on
blocks, threads or the order of sums, and equal vectors have equal cosines.

Notation: n rows of a block, N in all, L layers, D width of a vector.
"""

import hashlib
from bisect import insort
from collections.abc import Callable, Hashable
from math import isqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from elmokit.analysis.neighbors.index import APPROXIMATE, BLOCK, NeighborIndex, Rows
from elmokit.embedding.records import Vectors
from elmokit.errors import ConfigError, ElmokitError, FormatError, InputError
from elmokit.filesystem import atomic_path
from elmokit.progress import ProgressCallback

Identify = Callable[[int], Hashable | None]
"""The identity of a row: among rows with the same identity the first counts; None excludes a row."""
_TRAINING_ROWS, _MIN_ROWS = 64, 40
"""Rows per faiss list for training its centers, and the minimum (faiss requires 39)."""
_TINY = 1e-30


class Hit(NamedTuple):
    """A row and its cosine."""

    row: int
    cosine: float


class Nearest:
    """The k rows nearest to a vector among all rows it receives; ties go to the lower row.

    Args:
        layers: (L, D) layers of the query.
        weights: (L,) weights of the mix that is compared.
        k: number of rows to keep.
        identify: see `Identify`; called only for rows that may be kept.
    """

    def __init__(self, layers: Vectors, weights: tuple[float, ...], k: int, identify: Identify) -> None:
        if k < 1:
            raise ConfigError(f"{k} neighbors cannot be given: ask for at least 1.")
        self._weights = scale_weights(weights)
        self.vector = mix_rows(layers[None], self._weights)[0]  # (D,) float64
        length = float(np.linalg.norm(self.vector))
        if not 0 < length < np.inf:
            raise InputError("the vector to compare with is zero or not finite in this mix: choose other layers.")
        self.vector /= length
        self.wanted = k
        """Number of rows to keep."""
        self._identify = identify
        self._kept: list[tuple[float, int]] = []  # minus cosine and row, nearest first
        self._shown: dict[Hashable, tuple[float, int]] = {}  # by identity
        self._what: dict[int, Hashable] = {}  # identity of each row
        width = len(self.vector)
        self._margin = 4 * (width + len(weights)) * 2.0**-24 + 1e-5
        """Upper bound of the error of a cosine in float32."""
        self._query = torch.from_numpy(self.vector.astype(np.float32))  # (D,)
        self._half = np.empty((BLOCK, width), np.float16)
        self._single, self._mixed = torch.empty(BLOCK, width), torch.empty(BLOCK, width)

    def feed(self, rows: Rows, layers: Vectors) -> None:
        """Process rows (n,) with their layers (n, L, D) in float16; each row may come only once."""
        rough = self._rough_cosines(layers)  # (n,)
        left = np.flatnonzero(rough >= self._least - self._margin)  # (c,)
        count = 4 * self.wanted + 64
        while len(left):
            order = np.argpartition(-rough[left], count) if len(left) > count else np.arange(len(left))
            self._compare(rows[left[order[:count]]], layers[left[order[:count]]])
            left = left[order[count:]]
            left = left[rough[left] >= self._least - self._margin]
            count *= 4

    def _compare(self, rows: Rows, layers: Vectors) -> None:
        """Compare rows exactly, and keep the nearest."""
        mixed = mix_rows(layers, self._weights)  # (c, D)
        lengths = np.sqrt((mixed * mixed).sum(-1))  # (c,)
        cosines = (mixed * self.vector).sum(-1) / np.maximum(lengths, _TINY)  # (c,)
        for place in np.lexsort((rows, -cosines)):
            entry = (-float(cosines[place]), int(rows[place]))
            if len(self._kept) == self.wanted and entry > self._kept[-1]:
                break
            shown = self._identify(entry[1])
            known = self._shown.get(shown)
            if shown is None or (known is not None and known < entry):
                continue
            if known is not None:
                self._kept.remove(known)
            insort(self._kept, entry)
            self._shown[shown] = entry
            self._what[entry[1]] = shown
            if len(self._kept) > self.wanted:
                del self._shown[self._what.pop(self._kept.pop()[1])]

    def hits(self) -> list[Hit]:
        """The kept rows, nearest first."""
        return [Hit(row, -negative) for negative, row in self._kept]

    @property
    def _least(self) -> float:
        return -self._kept[-1][0] if len(self._kept) == self.wanted else -np.inf

    def _rough_cosines(self, layers: Vectors) -> NDArray[np.float32]:
        """Cosines (n,) in float32, without allocating an array as large as the rows."""
        count = len(layers)
        half, single, mixed = torch.from_numpy(self._half[:count]), self._single[:count], self._mixed[:count]
        for number, (layer, weight) in enumerate(self._weights.items()):
            np.copyto(self._half[:count], layers[:, layer])  # (n, D); a map may be read only, which torch dislikes
            if number:
                mixed.add_(single.copy_(half), alpha=weight)
            else:
                mixed.copy_(half)
                if weight != 1:
                    mixed.mul_(weight)
        lengths = torch.linalg.vector_norm(mixed, dim=1).clamp_(min=_TINY)  # (n,)
        cosines: NDArray[np.float32] = (mixed @ self._query).div_(lengths).numpy()
        return cosines


def scale_weights(weights: tuple[float, ...]) -> dict[int, float]:
    """The layers with nonzero weight, scaled so that the largest is 1 or -1: cosines do not depend on the scale."""
    heaviest = max(map(abs, weights))
    return {layer: weight / heaviest for layer, weight in enumerate(weights) if weight}


def mix_rows(layers: Vectors, weights: dict[int, float]) -> NDArray[np.float64]:
    """The mix (n, D) of layers (n, L, D), in float64."""
    total = np.zeros((len(layers), layers.shape[2]))  # (n, D)
    for layer, weight in weights.items():
        total += weight * layers[:, layer].astype(np.float64)
    return total


class ApproximateIndex:
    """Candidates for the nearest rows from faiss: 8-bit vectors of one mix in √N lists, of which few are searched.

    It is written next to the index on first use, and memory-mapped from then on.

    Args:
        index: the exact index.
        weights: (L,) weights of the mix.
        report: receives how many rows were added.
    """

    def __init__(
        self, index: NeighborIndex, weights: tuple[float, ...], report: ProgressCallback | None = None
    ) -> None:
        self._faiss = import_faiss()
        self._faiss.omp_set_num_threads(torch.get_num_threads())
        self._index = index
        self._weights = scale_weights(weights)
        name = hashlib.blake2b(np.array(weights, "<f8").tobytes(), digest_size=8).hexdigest()
        path = index.path / APPROXIMATE / f"{name}.faiss"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            self._write(path, report or (lambda done, total: None))
        try:
            self._lists = self._faiss.read_index(str(path), self._faiss.IO_FLAG_MMAP)
        except RuntimeError:
            raise FormatError(f"{path} is damaged: delete it to rebuild it.") from None
        if (self._lists.d, self._lists.ntotal) != (index.meta.width, index.num_tokens):
            raise FormatError(f"{path} is of another index: delete it to rebuild it.")
        self._lists.nprobe = min(self._lists.nlist, 16 + self._lists.nlist // 32)

    def search(self, nearest: Nearest) -> None:
        """Feed the apparently nearest rows, and more of them while fewer than k are kept."""
        count, seen = 8 * nearest.wanted + 64, np.empty(0, np.int64)
        while True:
            count = min(count, self._index.num_tokens)
            _, found = self._lists.search(nearest.vector[None].astype(np.float32), count)  # (1, count), -1 is none
            fresh = np.setdiff1d(found[found >= 0], seen)  # ascending
            for rows, layers in self._index.blocks(fresh):
                nearest.feed(rows, layers)
            seen = np.union1d(seen, fresh)
            if len(nearest.hits()) == nearest.wanted or not len(fresh) or count == self._index.num_tokens:
                return
            count *= 4

    def _write(self, path: Path, report: ProgressCallback) -> None:
        total = self._index.num_tokens
        num_lists = max(1, min(isqrt(total), total // _MIN_ROWS))
        lists = self._faiss.index_factory(
            self._index.meta.width, f"IVF{num_lists},SQ8", self._faiss.METRIC_INNER_PRODUCT
        )
        chosen = np.random.default_rng(0).choice(total, min(total, num_lists * _TRAINING_ROWS), replace=False)
        lists.train(np.concatenate([self._units(layers) for _, layers in self._index.blocks(np.sort(chosen))]))
        for rows, layers in self._index.blocks():
            lists.add(self._units(layers))
            report(int(rows[-1]) + 1, total)
        with atomic_path(path) as temporary:
            self._faiss.write_index(lists, str(temporary))

    def _units(self, layers: Vectors) -> NDArray[np.float32]:
        """Mixed rows (n, D), normalized to length 1."""
        mixed = mix_rows(layers, self._weights)  # (n, D)
        lengths = np.linalg.norm(mixed, axis=1, keepdims=True)  # (n, 1)
        units: NDArray[np.float32] = (mixed / np.maximum(lengths, _TINY)).astype(np.float32)
        return units


def import_faiss() -> Any:
    """The faiss library."""
    try:
        import faiss
    except ImportError:
        raise ElmokitError(
            'approximate search needs faiss, which is not installed: run pip install "elmokit[ann]", '
            "or leave --ann out for exact search."
        ) from None
    return faiss
