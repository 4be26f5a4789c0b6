"""Matrices in the layout that a CPU multiplies fastest, cached until the weight changes."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import torch
from torch import Tensor

Packed = TypeVar("Packed")

_BLOCK_BYTES = 2**20
_BLOCK_ROWS = 128
_FEW_ROWS = 8
_FEW_COLUMNS = 128


class BlockedMatrix:
    """A wide matrix split into blocks of columns that each fit into a core's cache.

    A product with the whole matrix reads all its columns from memory for every few rows; block by block, each column
    comes from the cache for all rows except the first. Narrow matrices, and products of very few or hundreds of rows,
    gain nothing. The blocks are a copy of the matrix, so they are created only when a step first needs them.
    """

    def __init__(self, matrix: Tensor) -> None:
        self.matrix = matrix  # (K, M)
        self.columns = max(_FEW_COLUMNS, _BLOCK_BYTES // (4 * matrix.shape[0]))
        self._lock = threading.Lock()
        self._blocks: list[Tensor] | None = None

    @property
    def blocks(self) -> list[Tensor]:
        """The blocks (K, columns); none for a narrow matrix."""
        with self._lock:
            if self._blocks is None:
                wide = self.matrix.shape[1] >= 2 * self.columns
                parts = self.matrix.split(self.columns, dim=1) if wide else ()
                self._blocks = [part.contiguous() for part in parts]
            return self._blocks

    def multiply_many(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M), for as many rows as there are at once."""
        return torch.mm(rows, self.matrix, out=out)

    def multiply(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M), for the few rows of one step."""
        if len(rows) < _FEW_ROWS or not self.blocks:
            return torch.mm(rows, self.matrix, out=out)
        for block, columns in zip(self.blocks, out.split(self.columns, dim=1), strict=True):
            for part, place in zip(rows.split(_BLOCK_ROWS), columns.split(_BLOCK_ROWS), strict=True):
                torch.mm(part, block, out=place)
        return out

    def accumulate(self, rows: Tensor, total: Tensor) -> None:
        """Add rows (n, K) @ matrix to total (n, M)."""
        if len(rows) < _FEW_ROWS or not self.blocks:
            total.addmm_(rows, self.matrix)
            return
        for block, columns in zip(self.blocks, total.split(self.columns, dim=1), strict=True):
            for part, place in zip(rows.split(_BLOCK_ROWS), columns.split(_BLOCK_ROWS), strict=True):
                place.addmm_(part, block)


class Packer(Generic[Packed]):
    """Packs each weight once, and again after it changes."""

    def __init__(self, pack: Callable[[Tensor], Packed]) -> None:
        self._pack = pack
        self._lock = threading.Lock()
        self._known: dict[int, tuple[int, Packed]] = {}

    def __call__(self, matrix: Tensor) -> Packed:
        """The packed form of a weight (K, M)."""
        version = 0 if matrix.is_inference() else matrix._version
        with self._lock:
            known = self._known.get(matrix.data_ptr())
            if known is None or known[0] != version:
                known = self._known[matrix.data_ptr()] = (version, self._pack(matrix.detach()))
            return known[1]
