"""Matrix products in training with AMX tiles: factors are rounded to bfloat16, sums are float32.

Notation: n rows, K and M widths.
"""

import ctypes

import torch
from torch import Tensor

from elmokit.model.engines.products import Matrix, RunningSum, TransposedSum

_SIDE = 32
"""Tiles come in squares of this size; see tiles.c."""


class TileProducts:
    """Products rounded to bfloat16, for float32 tensors on the CPU with contiguous rows.

    Args:
        library: `NativeLibrary.tile_functions`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.pack, self.multiply, self.add = (
            getattr(library, f"elmokit_tiles_{name}") for name in ("pack", "multiply", "add")
        )
        size, pointer = ctypes.c_int64, ctypes.c_void_p
        self.pack.argtypes = [size, size, pointer, size, pointer]
        self.multiply.argtypes = [size, size, size, pointer, size, pointer, pointer, pointer, size, pointer]
        self.add.argtypes = [size, size, size, pointer, size, pointer, size, pointer, pointer]
        self.pack.restype = self.multiply.restype = self.add.restype = None

    def prepare(self, matrix: Tensor) -> Matrix:
        """See `Products`."""
        return _TileMatrix(self, matrix)

    def add_transposed_product(self, left: Tensor, right: Tensor, total: Tensor) -> None:
        """See `Products`."""
        (num_rows, height), width = left.shape, right.shape[1]
        scratch = _tiles(num_rows, height + _SIDE + width)
        pointers = (left.data_ptr(), left.stride(0), right.data_ptr(), right.stride(0), total.data_ptr())
        self.add(height, width, num_rows, *pointers, scratch.data_ptr())

    def sum_transposed(self, left: Tensor, width: int) -> TransposedSum:
        """See `Products`."""
        return RunningSum(self, left, width)


class _TileMatrix:
    def __init__(self, products: TileProducts, matrix: Tensor) -> None:
        self._products = products
        self._shape = matrix.shape
        self._packed = _tiles(*matrix.shape)
        matrix = matrix.contiguous()
        products.pack(*matrix.shape, matrix.data_ptr(), matrix.stride(0), self._packed.data_ptr())

    def multiply(self, rows: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
        depth, width = self._shape
        scratch = _tiles(len(rows), depth)
        self._products.multiply(
            *(len(rows), width, depth, rows.data_ptr(), rows.stride(0), self._packed.data_ptr()),
            *(None if bias is None else bias.data_ptr(), out.data_ptr(), out.stride(0), scratch.data_ptr()),
        )
        return out


def _tiles(height: int, width: int) -> Tensor:
    """Memory for a matrix, rounded up to whole tiles."""
    return torch.empty(_whole(height) * _whole(width), dtype=torch.int16)


def _whole(size: int) -> int:
    return -(-size // _SIDE) * _SIDE
