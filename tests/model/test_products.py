"""Products rounded to bfloat16 against float64 products of the same rounded numbers, and training with them."""

import pytest
import torch
from torch import Tensor

from elmokit.model.engines.native_products import NativeProducts
from elmokit.model.engines.products import PLAIN_PRODUCTS, ROUNDED_PRODUCTS, Products
from elmokit.model.engines.train import TrainEngine
from elmokit.native.library import NativeLibrary, UnusableLibraryError
from tests.contracts.engine import EngineContract

KINDS = ["baseline", "avx2", "avx512", "avx512bf16"]
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


def native(name: str) -> NativeProducts:
    """Products by the library limited to a kind of processor, or a skipped test."""
    precision = "bfloat16" if name == "avx512bf16" else "float32"
    try:
        library = NativeLibrary(limit=name, precision=precision)  # type: ignore[arg-type]
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    if library.kind != name:
        pytest.skip(f"this processor or compiler has no {name}")
    return NativeProducts(library)


@pytest.mark.engine
@pytest.mark.parametrize(("rows", "height", "width"), [*SHAPES, (41, 65, 131)])
@pytest.mark.parametrize("name", KINDS)
def test_native_products(rows: int, height: int, width: int, name: str) -> None:
    """Of matrices that are stored either way around, and of steps that arrive in reverse and split pairs of rows."""
    products = native(name)
    rounded = exact if name == "avx512bf16" else Tensor.double
    left, right, square = draw(rows, height), draw(rows, width), draw(height, width)
    bias = torch.arange(float(width)) + 0.123456
    expected = rounded(left) @ rounded(square) + bias
    for matrix in (square, square.T.contiguous().T):
        wide = torch.full((rows + 1, width + 2), 7.0)
        out = products.prepare(matrix).multiply(left, wide[:rows, :width], bias)
        torch.testing.assert_close(out.double(), expected, atol=1e-5 * height**0.5, rtol=1e-6)
        assert (wide[rows] == 7).all() and (wide[:, width:] == 7).all()
    total, by_steps = torch.ones(height, width), products.sum_transposed(left, width)
    products.add_transposed_product(left, right, total)
    for begin in reversed(range(0, rows, 5)):
        assert by_steps.add(slice(begin, begin + 5), right[begin : begin + 5]).shape[1] == width
    expected = rounded(left).T @ rounded(right)
    for found in (total - 1, by_steps.total()):
        torch.testing.assert_close(found.double(), expected, atol=1e-5 * rows**0.5, rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
class TestNativeTraining(EngineContract):
    dtype = torch.float32

    @pytest.fixture(autouse=True)
    def _use_kind(self, name: str) -> None:
        products = native(name)
        self.tolerance = 0.2 if name == "avx512bf16" else 2e-5
        self.engine = TrainEngine(NativeLibrary(), products)


def test_an_empty_window_has_a_sum_of_zero() -> None:
    for products in (PLAIN_PRODUCTS, ROUNDED_PRODUCTS):
        assert torch.equal(products.sum_transposed(torch.empty(0, 3), 2).total(), torch.zeros(3, 2))


class TestRoundedTrainEngine(EngineContract):
    """Within what rounding to eight bits does to a few steps of random numbers."""

    dtype = torch.float32
    tolerance = 0.15

    engine = TrainEngine(None, ROUNDED_PRODUCTS)
