"""Products in training by the native library, in float32 or with factors rounded to bfloat16 (see native/infer.c).

Sums are float32 in both precisions and are never rounded, unlike those of torch's product of bfloat16 matrices.

Notation: N rows of a window, n rows of a step, K and M widths.
"""

import torch
from torch import Tensor
from torch.nn.functional import pad

from elmokit.model.engines.products import Matrix, TransposedSum
from elmokit.native.library import NativeLibrary


class NativeProducts:
    """Implements `Products` for float32 tensors on the CPU, in the precision of the library."""

    def __init__(self, library: NativeLibrary) -> None:
        self.library = library

    def prepare(self, matrix: Tensor) -> Matrix:
        """See `Products`."""
        return _PackedMatrix(self.library, matrix)

    def add_transposed_product(self, left: Tensor, right: Tensor, total: Tensor) -> None:
        """See `Products`."""
        total += self.prepare(right).multiply(self.library.transpose(left), torch.empty_like(total))

    def sum_transposed(self, left: Tensor, width: int) -> TransposedSum:
        """See `Products`."""
        return _PackedSum(self.library, left, width)


class _PackedMatrix:
    def __init__(self, library: NativeLibrary, matrix: Tensor) -> None:
        self._library, self._panels = library, library.pack(matrix)

    def multiply(self, rows: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
        start = None if bias is None else pad(bias, (0, -len(bias) % 64))
        return self._library.product(rows, self._panels, out, start=start)


class _PackedSum:
    """Packs the rows of a step while they are in the cache, and multiplies once at the end."""

    def __init__(self, library: NativeLibrary, left: Tensor, width: int) -> None:
        self._library, self._left, self._width = library, left, width
        self._panels = library.new_panels(len(left), width)

    def add(self, step: slice, right: Tensor) -> Tensor:
        """See `TransposedSum`."""
        self._library.pack_rows(right, self._panels, step.start)
        return right

    def total(self) -> Tensor:
        """See `TransposedSum`."""
        left = self._library.transpose(self._left)  # (K, N)
        return self._library.product(left, self._panels, left.new_empty(len(left), self._width))
