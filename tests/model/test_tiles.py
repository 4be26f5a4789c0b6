"""Products by tiles against float64 products of the same rounded numbers, and training with them."""

import pytest
import torch
from torch import Tensor

from elmokit.model.engines.products import PLAIN_PRODUCTS, Products
from elmokit.model.engines.tiles import TileProducts
from elmokit.model.engines.train import TrainEngine
from elmokit.native.library import NativeLibrary
from tests.contracts.engine import EngineContract

SHAPES = [(1, 1, 1), (3, 5, 7), (32, 32, 32), (33, 31, 65), (17, 100, 40), (128, 256, 96), (2, 64, 33)]
"""Rows, and widths of either factor: less than a tile, whole tiles, a little more."""


def draw(*shape: int) -> Tensor:
    """Numbers inside a wider matrix, so that rows are apart."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape[0], shape[1] + 3, generator=generator)[:, : shape[1]]


def exact(x: Tensor) -> Tensor:
    return x.bfloat16().double()


@pytest.mark.parametrize(("rows", "depth", "width"), SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_rows_times_a_matrix(tiles: TileProducts, rows: int, depth: int, width: int, with_bias: bool) -> None:
    left, right = draw(rows, depth), draw(depth, width)
    bias = torch.arange(float(width)) if with_bias else None
    wide = torch.full((rows + 1, width + 2), 7.0)
    out = tiles.prepare(right).multiply(left, wide[:rows, :width], bias)
    expected = exact(left) @ exact(right) + (0 if bias is None else bias)
    torch.testing.assert_close(out.double(), expected, atol=1e-5 * depth**0.5, rtol=1e-5)
    assert (wide[rows] == 7).all() and (wide[:, width:] == 7).all()  # nothing is written beside it


@pytest.mark.parametrize(("rows", "height", "width"), SHAPES)
def test_a_turned_matrix_times_rows_is_added(tiles: TileProducts, rows: int, height: int, width: int) -> None:
    left, right = draw(rows, height), draw(rows, width)
    total = torch.ones(height, width)
    tiles.add_transposed_product(left, right, total)
    expected = 1 + exact(left).T @ exact(right)
    torch.testing.assert_close(total.double(), expected, atol=1e-5 * rows**0.5, rtol=1e-5)


def test_a_number_that_is_none_stays_none(tiles: TileProducts) -> None:
    left = torch.ones(2, 3)
    left[0, 1] = torch.nan
    out = tiles.prepare(torch.ones(3, 2)).multiply(left, torch.empty(2, 2))
    assert out[0].isnan().all() and (out[1] == 3).all()


@pytest.mark.parametrize("with_bias", [False, True])
def test_plain_products_are_those_of_torch(with_bias: bool) -> None:
    plain: Products = PLAIN_PRODUCTS
    left, right = draw(5, 4).double(), draw(4, 6).double()
    bias = torch.arange(6.0).double() if with_bias else None
    out = plain.prepare(right).multiply(left, torch.empty(5, 6).double(), bias)
    torch.testing.assert_close(out, left @ right + (0 if bias is None else bias))
    total = torch.ones(4, 6).double()
    plain.add_transposed_product(left, out, total)
    torch.testing.assert_close(total, 1 + left.T @ out)


class TestTileTrainEngine(EngineContract):
    """Within what rounding to eight bits does to a few steps of random numbers."""

    dtype = torch.float32
    tolerance = 0.15

    @pytest.fixture(autouse=True)
    def _engine(self, library: NativeLibrary, tiles: TileProducts) -> None:
        self.engine = TrainEngine(library, tiles)
