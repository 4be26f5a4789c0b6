"""The character encoder in training: the numbers and gradients of the plain one, for every kind of processor."""

from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.model.char_encoder import CharEncoder
from elmokit.model.engines.native_products import NativeProducts
from elmokit.model.engines.products import PLAIN_PRODUCTS, Products
from elmokit.model.engines.train_encoder import TrainEncoder
from elmokit.native.library import NativeLibrary, UnusableLibraryError

pytestmark = pytest.mark.engine

SHAPES: dict[str, dict[str, Any]] = {
    "relu": {},
    "tanh": {"activation": "tanh"},
    "wide filters": {"filters": [(1, 65), (7, 130)], "char_dim": 16},
    "no highway": {"num_highway": 0},
    "no projection": {"projected": False},
    "words too": {"num_words": 6, "word_dim": 3},
    "words only": {"num_words": 6, "word_dim": 3, "filters": [], "num_highway": 0},
}


def build(shape: dict[str, Any]) -> CharEncoder:
    settings: dict[str, Any] = {
        "num_characters": 9,
        "char_dim": 5,
        "filters": [(1, 4), (2, 7), (3, 17)],
        "activation": "relu",
        "num_highway": 2,
        "output_dim": 6,
    }
    encoder = CharEncoder(**(settings | shape))
    encoder.initialize(torch.Generator().manual_seed(5))
    with torch.no_grad():
        for name, parameter in encoder.named_parameters():
            if name.endswith("bias"):
                parameter.uniform_(-0.3, 0.3, generator=torch.Generator().manual_seed(7))
    return encoder


def draw_ids(encoder: CharEncoder, rows: int = 23, columns: int = 11) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, 10, (rows, columns), generator=generator)
    lengths = torch.randint(1, columns, (rows,), generator=generator)
    ids[torch.arange(columns) >= lengths[:, None]] = 9  # padding, so that windows tie
    if encoder.word_table is not None:
        ids = torch.cat([torch.randint(1, 7, (rows, 1), generator=generator), ids], dim=1)
    return ids


def run(encoder: CharEncoder, encode: Any, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    encoder.zero_grad(set_to_none=True)
    vectors = encode(ids)
    weights = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(9))
    vectors.backward(weights)
    return vectors.detach(), {name: p.grad.clone() for name, p in encoder.named_parameters() if p.grad is not None}


def libraries() -> list[Any]:
    return [pytest.param(name, id=name) for name in ("baseline", "avx2", "avx512")]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", libraries())
def test_equals_the_plain_encoder(shape: str, name: str) -> None:
    try:
        library = NativeLibrary(limit=name)
    except UnusableLibraryError as error:
        pytest.skip(str(error))
    encoder = build(SHAPES[shape])
    ids = draw_ids(encoder)
    expected, gradients = run(encoder, encoder.encode_types, ids)
    found, native = run(encoder, TrainEncoder(encoder, library, NativeProducts(library)), ids)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=2e-6)
    assert native.keys() == gradients.keys()
    for key, gradient in gradients.items():
        torch.testing.assert_close(native[key], gradient, atol=2e-5, rtol=2e-5, msg=key)


@pytest.mark.parametrize("products", ["plain", "bfloat16"])
def test_products_are_replaceable(products: str, library: NativeLibrary) -> None:
    own: Products = PLAIN_PRODUCTS
    tolerance = 2e-5
    if products == "bfloat16":
        try:
            own, tolerance = NativeProducts(NativeLibrary(precision="bfloat16")), 0.15
        except UnusableLibraryError as error:
            pytest.skip(str(error))
    encoder = build({"num_highway": 1, "activation": "tanh"})
    ids = draw_ids(encoder)
    expected, gradients = run(encoder, encoder.encode_types, ids)
    found, native = run(encoder, TrainEncoder(encoder, library, own), ids)
    assert float((found - expected).norm()) <= tolerance * float(expected.norm())
    for key, gradient in gradients.items():
        assert float((native[key] - gradient).norm()) <= tolerance * float(gradient.norm()), key


@pytest.mark.parametrize("frozen", ["char_table", "convolutions", "highways", "projection.bias"])
def test_frozen_parameters_get_no_gradient(frozen: str, library: NativeLibrary) -> None:
    encoder = build({})
    for name, parameter in encoder.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    ids = draw_ids(encoder)
    expected = run(encoder, encoder.encode_types, ids)[1]
    found = run(encoder, TrainEncoder(encoder, library, NativeProducts(library)), ids)[1]
    assert found.keys() == expected.keys() and not any(name.startswith(frozen) for name in found)
    for key, gradient in expected.items():
        torch.testing.assert_close(found[key], gradient, atol=2e-5, rtol=2e-5, msg=key)


def test_nan_stays(library: NativeLibrary) -> None:
    encoder = build({})
    with torch.no_grad():
        next(encoder.convolutions.parameters())[0, 0, 0] = float("nan")
    found = TrainEncoder(encoder, library, NativeProducts(library))(draw_ids(encoder))
    assert found.isnan().all()
