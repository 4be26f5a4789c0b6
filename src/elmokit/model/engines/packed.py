"""Matrices in the order in which a CPU multiplies them fastest, kept as long as the weight does not change."""

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import torch
from torch import Tensor

_BLOCK_BYTES = 2**20
_BLOCK_ROWS = 128
_FEW_ROWS = 8
_FEW_COLUMNS = 128


class PackedMatrix(Protocol):
    """A matrix (K, M) to multiply rows by."""

    def multiply(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M)."""

    def accumulate(self, rows: Tensor, total: Tensor) -> None:
        """Add rows (n, K) @ matrix to total (n, M)."""

    def multiply_gates(self, rows: Tensor, out: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The four gates of a range of cells at a time: its first cell, and (n, 4 · cells) in memory lent by `out`."""


class BlockedMatrix:
    """A wide matrix cut into blocks of columns that each fit into a core's own cache.

    A product with the whole of it reads all its columns from memory for every few rows; block by block, each column
    comes from the cache for all rows but the first. Narrow matrices, and products of a few rows, gain nothing.
    """

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix  # (K, M)
        self.columns = max(_FEW_COLUMNS, _BLOCK_BYTES // (4 * matrix.shape[0]))
        wide = matrix.shape[1] >= 2 * self.columns
        self.blocks = [block.contiguous() for block in matrix.split(self.columns, dim=1)] if wide else []

    def multiply(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M)."""
        if not self.blocks or len(rows) < _FEW_ROWS:
            return torch.mm(rows, self.matrix, out=out)
        for block, columns in zip(self.blocks, out.split(self.columns, dim=1), strict=True):
            for part, place in zip(rows.split(_BLOCK_ROWS), columns.split(_BLOCK_ROWS), strict=True):
                torch.mm(part, block, out=place)
        return out

    def accumulate(self, rows: Tensor, total: Tensor) -> None:
        """Add rows (n, K) @ matrix to total (n, M)."""
        if not self.blocks or len(rows) < _FEW_ROWS:
            total.addmm_(rows, self.matrix)
            return
        for block, columns in zip(self.blocks, total.split(self.columns, dim=1), strict=True):
            for part, place in zip(rows.split(_BLOCK_ROWS), columns.split(_BLOCK_ROWS), strict=True):
                place.addmm_(part, block)

    def multiply_gates(self, rows: Tensor, out: Tensor) -> Iterator[tuple[int, Tensor]]:
        """The four gates of a range of cells at a time: its first cell, and (n, 4 · cells) in memory lent by `out`.

        A range's gates are used while they are still in the cache.
        """
        num_ranges, rest = divmod(self.matrix.shape[1], 4 * self.columns)
        if not self.blocks or rest or len(rows) < _FEW_ROWS or len(rows) > _BLOCK_ROWS:
            yield 0, self.multiply(rows, out)
            return
        part = out.view(-1)[: len(rows) * 4 * self.columns].view(len(rows), -1)  # (n, 4 · cells)
        for number in range(num_ranges):
            for gate, columns in enumerate(part.split(self.columns, dim=1)):
                torch.mm(rows, self.blocks[gate * num_ranges + number], out=columns)
            yield number * self.columns, part


class Packer:
    """Packs each weight once, and again when it has changed."""

    def __init__(self, pack: Callable[[Tensor], PackedMatrix]) -> None:
        self._pack = pack
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, PackedMatrix]] = {}

    def __call__(self, matrix: Tensor) -> PackedMatrix:
        """The packed form of a weight (K, M)."""
        version = 0 if matrix.is_inference() else matrix._version
        with self._lock:
            known = self._known.get(matrix.data_ptr())
            if known is None or known[0] != version:
                known = self._known[matrix.data_ptr()] = (version, self._pack(matrix.detach()))
            return known[1]
