"""Code for AMX tiles, on an emulation of its instructions (`emulated_tiles.h`)."""

import dataclasses
from pathlib import Path

import pytest
import torch

from elmokit.embedding.embedder import Embedder
from elmokit.model.engines.infer import NativeEngine
from elmokit.model.engines.native_encoder import NativeEncoder
from elmokit.model.engines.tiles import TileProducts
from elmokit.model.engines.train import TrainEngine
from elmokit.native.build import BuildError, build_library
from elmokit.native.library import NativeLibrary, Precision, UnusableLibraryError
from tests.conftest import SENTENCES, build_tiny
from tests.contracts.engine import EngineContract
from tests.model.test_tiles import (  # noqa: F401  (they run with the tiles of this module)
    test_a_number_that_is_none_stays_none,
    test_a_turned_matrix_times_rows_is_added,
    test_rows_times_a_matrix,
)
from tests.model.test_train_encoder import build as build_encoder
from tests.model.test_train_encoder import draw_ids

pytestmark = [pytest.mark.extended, pytest.mark.engine]


@dataclasses.dataclass(frozen=True)
class Emulated:
    """A library whose tiles are emulated."""

    path: Path

    def load(self, precision: Precision, limit: str | None = None) -> NativeLibrary:
        return NativeLibrary(self.path, limit, precision)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Emulated:
    path = tmp_path_factory.mktemp("emulated") / "libelmokit.so"
    try:
        build_library(path, emulation=Path(__file__).parent)
        library = NativeLibrary(path, precision="bfloat16")
    except (BuildError, UnusableLibraryError) as error:
        pytest.skip(str(error))
    assert library.kind == "amxbf16"
    return Emulated(path)


@pytest.fixture
def tiles(emulated: Emulated) -> TileProducts:
    library = emulated.load("float32").tile_functions
    assert library is not None
    return TileProducts(library)


class TestBfloat16(EngineContract):
    differentiable = False
    dtype = torch.float32
    tolerance = 0.05

    @pytest.fixture(autouse=True)
    def _use_tiles(self, emulated: Emulated) -> None:
        library = emulated.load("bfloat16")
        assert library.kind == "amxbf16"
        self.engine = NativeEngine(library)


class TestInt8(EngineContract):
    differentiable = False
    dtype = torch.float32
    tolerance = 0.06

    @pytest.fixture(autouse=True)
    def _use_tiles(self, emulated: Emulated) -> None:
        library = emulated.load("int8")
        assert library.kind == "int8amx"
        self.engine = NativeEngine(library)


class TestTraining(EngineContract):
    dtype = torch.float32
    tolerance = 0.3

    @pytest.fixture(autouse=True)
    def _use_tiles(self, emulated: Emulated, tiles: TileProducts) -> None:
        self.engine = TrainEngine(emulated.load("float32"), tiles)


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 1, 1), (7, 5, 64), (2, 16, 65), (33, 33, 130), (16, 128, 9)])
def test_bfloat16_products_of_any_size(emulated: Emulated, rows: int, depth: int, width: int) -> None:
    library = emulated.load("bfloat16")
    generator = torch.Generator().manual_seed(1)
    x, matrix = torch.randn(rows + 3, depth, generator=generator), torch.randn(depth, width, generator=generator)
    wide = torch.full((rows, width + 5), 7.0)
    library.product(x[3:], library.pack(matrix), wide[:, :width])
    expected = x[3:].bfloat16().double() @ matrix.bfloat16().double()
    torch.testing.assert_close(wide[:, :width].double(), expected, atol=1e-4, rtol=1e-5)
    assert (wide[:, width:] == 7).all()


@pytest.mark.parametrize("kind", ["characters", "bare", "one-layer", "tokens"])
def test_int8_has_the_bits_of_the_other_kinds(emulated: Emulated, kind: str) -> None:
    bilm = build_tiny(kind)
    sentences = [*SENTENCES, *([["play"] * 9] * 30), ["the"] * 40]
    found = []
    for limit in ("amx", "avx2"):
        embedder = Embedder(bilm, threads=1)
        embedder.runner.engine = NativeEngine(emulated.load("int8", limit))
        found.append([vectors.tobytes() for vectors in embedder.embed(sentences)])
    assert found[0] == found[1]


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_alone_and_in_a_batch(emulated: Emulated, precision: Precision) -> None:
    embedder = Embedder(build_tiny("characters"), threads=2)
    embedder.runner.engine = NativeEngine(emulated.load(precision))
    sentences = [*SENTENCES, *([["play"] * 9] * 30), ["the"] * 40]
    together = embedder.embed(sentences)
    for number in (0, 1, len(sentences) - 1):
        assert embedder.embed([sentences[number]])[0].tobytes() == together[number].tobytes()


def test_words_are_computed_without_tiles(emulated: Emulated) -> None:
    """Filters of several panels, whose inputs do not fill a tile: the same bits as without tiles."""
    encoder = build_encoder({"filters": [(1, 130), (3, 70)], "char_dim": 16, "num_highway": 0, "projected": False})
    ids = draw_ids(encoder)
    with torch.no_grad():
        found = NativeEncoder(encoder, emulated.load("bfloat16"))(ids)
        expected = NativeEncoder(encoder, emulated.load("bfloat16", "avx512bf16"))(ids)
        plain = encoder.encode_types(ids)
    assert torch.equal(found, expected)
    assert float((found - plain).norm()) < 0.01 * float(plain.norm())
