"""Matrix products in training: by torch, or with factors rounded to bfloat16.

A matrix that is used in many products is prepared once. `elmokit.model.engines.tiles` does the same with AMX tiles.

Notation: N rows of a window, n rows of a step, K and M widths.
"""

from typing import Protocol

import torch
from torch import Tensor


class Matrix(Protocol):
    """A matrix (K, M) to multiply rows by."""

    def multiply(self, rows: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
        """Rows (n, K) @ matrix + bias (M,) → out (n, M)."""


class TransposedSum(Protocol):
    """The transpose of a left matrix (N, K) @ a right matrix (N, M), of which each step provides a few rows."""

    def add(self, step: slice, right: Tensor) -> Tensor:
        """Add the rows (n, M) of a step; returns the same rows, ready for `Matrix.multiply`."""

    def total(self) -> Tensor:
        """The sum (K, M) over all steps, in float32."""


class Products(Protocol):
    """Computes matrix products."""

    def prepare(self, matrix: Tensor) -> Matrix:
        """Prepare a matrix (K, M) for many products."""

    def add_transposed_product(self, left: Tensor, right: Tensor, total: Tensor) -> None:
        """Add the transpose of left (n, K) @ right (n, M) to total (K, M)."""

    def sum_transposed(self, left: Tensor, width: int) -> TransposedSum:
        """The same for a left matrix (N, K) and a right matrix of `width` columns that arrives step by step."""


class _PlainProducts:
    """Torch's products, on any device and in any precision."""

    def prepare(self, matrix: Tensor) -> Matrix:
        return _PlainMatrix(matrix)

    def add_transposed_product(self, left: Tensor, right: Tensor, total: Tensor) -> None:
        total.addmm_(left.T, right)

    def sum_transposed(self, left: Tensor, width: int) -> TransposedSum:
        return RunningSum(self, left, width)


class _PlainMatrix:
    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix

    def multiply(self, rows: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is None:
            return torch.mm(rows, self._matrix, out=out)
        return torch.addmm(bias, rows, self._matrix, out=out)


class RunningSum:
    """A `TransposedSum` that multiplies at every step, while its numbers are in the cache."""

    def __init__(self, products: Products, left: Tensor, width: int) -> None:
        self._products, self._left = products, left
        self._total = left.new_zeros(left.shape[1], width)  # (K, M)

    def add(self, step: slice, right: Tensor) -> Tensor:
        """See `TransposedSum`."""
        self._products.add_transposed_product(self._left[step], right, self._total)
        return right

    def total(self) -> Tensor:
        """See `TransposedSum`."""
        return self._total


class _RoundedProducts:
    """Factors rounded to bfloat16 for torch's product, which adds in float32 and rounds the sum again.

    For float32 tensors on the CPU. On processors with AVX512-BF16 or AMX it is at least twice as fast as float32; on
    others it gives the same numbers slowly. Biases are added in float32, after the rounding.
    """

    def prepare(self, matrix: Tensor) -> Matrix:
        return _RoundedMatrix(matrix)

    def add_transposed_product(self, left: Tensor, right: Tensor, total: Tensor) -> None:
        total += _rounded(left).T @ _rounded(right)

    def sum_transposed(self, left: Tensor, width: int) -> TransposedSum:
        return _SumAtOnce(left, width)


class _RoundedMatrix:
    def __init__(self, matrix: Tensor) -> None:
        self._matrix = _rounded(matrix)

    def multiply(self, rows: Tensor, out: Tensor, bias: Tensor | None = None) -> Tensor:
        out.copy_(_rounded(rows) @ self._matrix)
        return out if bias is None else out.add_(bias)


class _SumAtOnce:
    """A `TransposedSum` that multiplies once at the end, so that its sum is rounded once, not at every step."""

    def __init__(self, left: Tensor, width: int) -> None:
        self._left = left
        self._right = left.new_empty(len(left), width, dtype=torch.bfloat16)  # (N, M)

    def add(self, step: slice, right: Tensor) -> Tensor:
        self._right[step] = right
        return self._right[step]

    def total(self) -> Tensor:
        return (_rounded(self._left).T @ self._right).float()


def _rounded(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16)


PLAIN_PRODUCTS, ROUNDED_PRODUCTS = _PlainProducts(), _RoundedProducts()
