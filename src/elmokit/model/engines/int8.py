"""The fast engine with 8-bit matrices: less memory to read, cheaper products, slightly different vectors.

Weights are rounded once, to 127 steps per column; the rows to multiply are rounded at every product, to 127 steps per
row. Each row has its own scale, so the vectors of a sentence do not depend on the batch. The rest stays float32.

Processors without 8-bit dot products add two products at a time in 16 bits, which is enough only for rows of 63 steps.
"""

from functools import cache

import torch
from torch import Tensor

from elmokit.amx import refuse_hidden_tiles
from elmokit.errors import ConfigError
from elmokit.model.engines.infer import PortableEngine
from elmokit.native.library import NativeLibrary

_PART_ROWS = 512


class Int8Matrix:
    """A matrix (K, M) as 8-bit integers in the order that oneDNN multiplies fastest, with a scale for each column.

    Args:
        steps: steps on either side of 0 for the rows to multiply; None uses as many as the processor allows.
    """

    def __init__(self, matrix: Tensor, steps: int | None = None) -> None:
        largest = matrix.abs().amax(0)  # (M,)
        self.scales = torch.where(largest > 0, largest / 127, torch.ones_like(largest))  # (M,)
        rounded = (matrix / self.scales).round_().to(torch.int8)  # (K, M)
        self.packed = torch.ops.onednn.qlinear_prepack(rounded.t().contiguous(), None)
        self.zeros = torch.zeros(len(self.scales), dtype=torch.long)
        self.steps = steps or row_steps()

    def multiply_many(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M), in parts, because a product needs several copies of its rows."""
        for part, place in zip(rows.split(_PART_ROWS), out.split(_PART_ROWS), strict=True):
            self.multiply(part, place)
        return out

    def multiply(self, rows: Tensor, out: Tensor) -> Tensor:
        """Rows (n, K) @ matrix → out (n, M)."""
        scale = torch.linalg.vector_norm(rows, torch.inf, 1, keepdim=True).div_(self.steps).clamp_(min=1e-30)  # (n, 1)
        zero = self.steps + 1  # represents 0 among unsigned numbers
        rounded = (rows / scale).round_().add_(zero).to(torch.uint8)  # (n, K)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            rounded, 1.0, zero, self.packed, self.scales, self.zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return torch.mul(product, scale, out=out)

    def accumulate(self, rows: Tensor, total: Tensor) -> None:
        """Add rows (n, K) @ matrix to total (n, M)."""
        total.add_(self.multiply(rows, torch.empty_like(total)))


@cache
def row_steps() -> int:
    """Steps on either side of 0 for rows on this processor: 127, or 63 if the largest products overflow."""
    ones = torch.ones(64, 64, dtype=torch.float32)
    product = Int8Matrix(ones, steps=127).multiply(ones, torch.empty_like(ones))
    return 127 if torch.allclose(product, 64 * ones) else 63


def int8_engine(library: NativeLibrary | None) -> PortableEngine:
    """The fast engine with 8-bit matrices; raises an error if this version of torch does not support them."""
    if not all(hasattr(torch.ops.onednn, name) for name in ("qlinear_prepack", "qlinear_pointwise")):
        raise ConfigError(f"int8 needs oneDNN's 8-bit products, which torch {torch.__version__} lacks: leave it out.")
    refuse_hidden_tiles("int8")
    return PortableEngine(Int8Matrix, library)
