"""Products rounded to bfloat16 against float64 products of the same rounded numbers, and training with them."""

import pytest
import torch
from torch import Tensor

from elmokit.model.engines.products import PLAIN_PRODUCTS, ROUNDED_PRODUCTS, Products
from elmokit.model.engines.train import TrainEngine
from tests.contracts.engine import EngineContract

SHAPES = [(1, 1, 1), (3, 5, 7), (33, 31, 65), (128, 256, 96)]
"""Rows, and widths of either factor."""


def draw(*shape: int) -> Tensor:
    """Numbers inside a wider matrix, so that rows are apart."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape[0], shape[1] + 3, generator=generator)[:, : shape[1]]


def exact(x: Tensor) -> Tensor:
    return x.bfloat16().double()


@pytest.mark.engine
@pytest.mark.parametrize(("rows", "depth", "width"), SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_rows_times_a_rounded_matrix(rows: int, depth: int, width: int, with_bias: bool) -> None:
    left, right = draw(rows, depth), draw(depth, width)
    bias = torch.arange(float(width)) + 0.123456 if with_bias else None
    wide = torch.full((rows + 1, width + 2), 7.0)
    out = ROUNDED_PRODUCTS.prepare(right).multiply(left, wide[:rows, :width], bias)
    product = exact(left) @ exact(right)
    expected = product + (0 if bias is None else bias)  # the bias is not rounded
    assert ((out - expected).abs() <= 2**-8 * product.abs() + 1e-5 * depth**0.5).all()
    assert (wide[rows] == 7).all() and (wide[:, width:] == 7).all()


@pytest.mark.engine
@pytest.mark.parametrize(("rows", "height", "width"), SHAPES)
@pytest.mark.parametrize("products", [PLAIN_PRODUCTS, ROUNDED_PRODUCTS], ids=["plain", "rounded"])
def test_a_turned_matrix_times_rows_at_once_and_by_steps(
    products: Products, rows: int, height: int, width: int
) -> None:
    left, right = draw(rows, height), draw(rows, width)
    total = torch.ones(height, width)
    products.add_transposed_product(left, right, total)
    by_steps = products.sum_transposed(left, width)
    given = [by_steps.add(slice(begin, begin + 5), right[begin : begin + 5]) for begin in range(0, rows, 5)]
    expected = exact(left).T @ exact(right) if products is ROUNDED_PRODUCTS else left.double().T @ right.double()
    for found in (total - 1, by_steps.total()):
        assert ((found - expected).abs() <= 2**-8 * expected.abs() + 1e-4 * rows**0.5).all()
        assert found.dtype == torch.float32
    torch.testing.assert_close(torch.cat(given).float(), right, rtol=2**-8, atol=0)


def test_an_empty_window_has_a_sum_of_zero() -> None:
    for products in (PLAIN_PRODUCTS, ROUNDED_PRODUCTS):
        assert torch.equal(products.sum_transposed(torch.empty(0, 3), 2).total(), torch.zeros(3, 2))


class TestRoundedTrainEngine(EngineContract):
    """Within what rounding to eight bits does to a few steps of random numbers."""

    dtype = torch.float32
    tolerance = 0.15

    engine = TrainEngine(None, ROUNDED_PRODUCTS)
