"""int8: the same bits by every kind of processor, at any batch and number of threads; and what its rounding costs."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from elmokit.embedding.embedder import Embedder
from elmokit.errors import ConfigError
from elmokit.model.bilm import BiLM
from elmokit.model.engines.infer import NativeEngine
from elmokit.native.library import (
    KINDS,
    LIMITS,
    NativeLibrary,
    UnusableLibraryError,
    find_library,
    forget_library,
    order_gates,
)
from tests.conftest import SENTENCES, build_tiny
from tests.contracts.engine import EngineContract

pytestmark = pytest.mark.engine

NAMES = ("baseline", "avx2", "avxvnni", "avx512", "vnni")
EQUAL = NAMES[1:]
"""Those with fused multiply-adds."""


def kind(name: str) -> NativeLibrary:
    """The library limited to a kind, or a skipped test."""
    try:
        library = NativeLibrary(limit=name, precision="int8")
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    if library.kind != f"int8{name}":
        pytest.skip(f"this processor or compiler has no {name}")
    return library


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
class TestKinds(EngineContract):
    """Close to the plain engine; weights of size 1 are far larger than in a trained model."""

    differentiable = False
    dtype = torch.float32
    tolerance = 0.06

    @pytest.fixture(autouse=True)
    def _use_kind(self, name: str) -> None:
        self.engine = NativeEngine(kind(name))


def gates_of(library: NativeLibrary, rows: Tensor, matrix: Tensor, index: Tensor | None = None) -> Tensor:
    """The product of rows (n, K) with a layer's matrix (K, 4H), in the order of the panels."""
    panels = library.pack_gates(matrix)
    out = torch.empty(len(rows) if index is None else len(index), 64 * -(-matrix.shape[1] // 64))
    return library.product(rows, panels, out, start=torch.ones(out.shape[1]), index=index)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("rows", "depth", "cells"), [(1, 1, 1), (7, 5, 16), (2, 64, 17), (13, 700, 33), (6, 1030, 5)])
def test_products_of_rounded_factors(name: str, rows: int, depth: int, cells: int) -> None:
    """Rows of 127 steps, and weights of 127 steps per column and block of 512 inputs, multiplied in float64."""
    library = kind(name)
    x, matrix = draw(rows + 3, depth), draw(depth, 4 * cells, seed=2)
    index = torch.randint(0, rows + 3, (rows,), generator=torch.Generator().manual_seed(3))
    scale = x.abs().amax(1, keepdim=True) / 127
    parts = []
    for part in matrix.split(512):
        steps = part.abs().amax(0) / 127
        parts.append((part / steps).round() * steps)
    exact = ((x / scale).round() * scale).double() @ torch.cat(parts).double() + 1
    found = gates_of(library, x, matrix, index)
    expected = order_gates(exact - 1)[index] + 1  # columns that fill up a panel have only the start
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize(("depth", "cells"), [(5, 3), (64, 16), (700, 33)])
def test_every_kind_has_the_same_bits(name: str, depth: int, cells: int) -> None:
    x, matrix = draw(13, depth), draw(depth, 4 * cells, seed=2)
    x[3] *= 1e6
    x[4] = 0
    reference, library = kind("avx2"), kind(name)
    assert torch.equal(gates_of(library, x, matrix), gates_of(reference, x, matrix))


@pytest.mark.parametrize("shape", ["characters", "bare", "one-layer", "tokens"])
def test_vectors_have_the_same_bits_by_every_kind(shape: str, engine_environment: pytest.MonkeyPatch) -> None:
    """Widths that fill no block, alone and together, by one thread and by two."""
    bilm = build_tiny(shape)
    sentences = [*SENTENCES, *([["play"] * 9] * 3), ["the"] * 40]
    found: dict[str, list[bytes]] = {}
    for name in EQUAL:
        engine_environment.setenv("ELMOKIT_CPU", name)
        engine_environment.delenv("ELMOKIT_NATIVE", raising=False)
        forget_library()
        try:
            embedder = Embedder(bilm, threads=2, precision="int8")
        except ConfigError as error:
            pytest.skip(str(error))
        assert isinstance(embedder.runner.engine, NativeEngine)
        kinds = embedder.runner.engine.library.kind
        assert embedder.runner.engine_name in ("native int8", "native int8 without FMA")
        if kinds != "int8baseline":
            found[kinds] = [vectors.tobytes() for vectors in embedder.embed(sentences)]
            alone = Embedder(bilm, threads=1, precision="int8").embed([sentences[1]])[0]
            assert alone.tobytes() == found[kinds][1]
    first = next(iter(found.values()), [])
    assert all(one == first for one in found.values())


def test_a_column_or_row_of_zeros_is_exact() -> None:
    library = kind("avx2")
    matrix = draw(96, 64)
    matrix[:, 4] = 0
    rows = draw(3, 96)
    rows[1] = 0
    out = library.product(rows, library.pack_gates(matrix), torch.empty(3, 64))
    column = int((order_gates(torch.arange(64.0)) == 4).nonzero())
    assert not out[:, column].any() and not out[1].any() and out[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_the_largest_products_do_not_overflow(name: str) -> None:
    library = kind(name)
    for sign in (1.0, -1.0):
        out = gates_of(library, torch.full((2, 4096), sign), torch.ones(4096, 64))
        torch.testing.assert_close(out, torch.full((2, 64), 1 + sign * 4096.0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_row_that_is_not_finite_spoils_only_itself(name: str, value: float) -> None:
    library = kind(name)
    rows, matrix = draw(9, 70), draw(70, 64, seed=2)
    expected = gates_of(library, rows, matrix)
    rows[4, 69] = value
    found = gates_of(library, rows, matrix)
    assert found[4].isnan().all()
    others = torch.arange(9) != 4
    assert torch.equal(found[others], expected[others])
    matrix[3, 5] = value
    assert gates_of(library, draw(2, 70), matrix).isnan().any(0).sum() == 1  # its column


@pytest.mark.parametrize("name", NAMES)
def test_a_cell_that_is_not_finite_spoils_only_its_row(name: str) -> None:
    """With a projection, whose rows have a fixed scale."""
    library = kind(name)
    num_cells, width, rows = 40, 12, 5
    panels = library.pack_gates(draw(width, 4 * num_cells)), library.pack(draw(num_cells, width, seed=2))
    inputs = draw(rows, 64 * -(-4 * num_cells // 64), seed=3)
    inputs[2, 7] = torch.nan
    y = torch.empty(rows, width)
    zeros = torch.zeros(rows, width), torch.zeros(rows, num_cells)
    state = torch.zeros(rows, width), torch.zeros(rows, num_cells)
    library.steps(panels, (3.0, 3.0), inputs, None, torch.tensor([rows]), None, zeros, state, y)
    assert y[2].isnan().all() and not y[torch.arange(rows) != 2].isnan().any()


def test_without_the_library_it_is_refused(engine_environment: pytest.MonkeyPatch, bilm: BiLM) -> None:
    engine_environment.setenv("ELMOKIT_NATIVE", "0")
    with pytest.raises(ConfigError, match=r"'int8' is not available: switched off .*; choose float32 or auto"):
        Embedder(bilm, int8=True)


def test_every_limit_has_a_kind() -> None:
    assert {name for name, _ in KINDS["int8"]} == {f"int8{name}" for name in (*NAMES, "amx")}
    assert set(NAMES) < set(LIMITS)


@pytest.fixture(scope="module")
def mini() -> Iterator[BiLM]:
    yield Embedder.from_pretrained("mini", threads=1).bilm


@pytest.mark.slow
def test_the_error_on_a_trained_model(mini: BiLM) -> None:
    """Relative RMS of 1.25 and 1.3% by layer on prose; the tolerance here leaves room for a few sentences only."""
    if find_library() is None:
        pytest.skip("int8 needs the native library")
    sentences = [["The", "play", "was", "long", "."], ["He", "sat", "on", "the", "bank", "of", "the", "river", "."]]
    exact, rounded = (np.concatenate(Embedder(mini, precision=p).embed(sentences), 1) for p in ("float32", "int8"))
    error = np.sqrt(((rounded - exact) ** 2).mean((1, 2)) / (exact**2).mean((1, 2)))
    assert error[0] == 0
    assert (error[1:] < 0.02).all() and (error[1:] > 0.002).all()
