"""Every engine keeps the contract."""

import pytest
import torch

from elmokit.model.cell import LayerWeights
from elmokit.model.engines.plain import PlainEngine
from elmokit.model.engines.train import TrainEngine
from elmokit.native.library import NativeLibrary
from tests.contracts.engine import EngineContract

pytestmark = pytest.mark.engine


class TestPlainEngine(EngineContract):
    engine = PlainEngine()


def test_a_step_by_hand() -> None:
    """One row, one cell: numbers worked out on paper."""
    weights = LayerWeights(
        input_weight=torch.tensor([[0.0, 0.0, 0.0, 1.0]]),  # i, f, o, j
        recurrent_weight=torch.zeros(1, 4),
        bias=torch.zeros(4),
        projection_weight=torch.tensor([[10.0]]),
        cell_clip=0.3,
        projection_clip=1.0,
    )
    y, h, c = PlainEngine().run_layer(weights, torch.tensor([[100.0]]), [1], torch.zeros(1, 1), torch.ones(1, 1))
    # c = ½·1 + ½·tanh(100) = 1, clipped to 0.3; h = 10·½·tanh(0.3) = 1.457, clipped to 1
    assert torch.allclose(c, torch.tensor([[0.3]]))
    assert torch.equal(y, torch.tensor([[1.0]]))
    assert torch.equal(h, y)


class TestTrainEngine(EngineContract):
    engine = TrainEngine()


class TestNativeTrainEngine(EngineContract):
    dtype = torch.float32
    tolerance = 2e-5

    @pytest.fixture(autouse=True)
    def _engine(self, library: NativeLibrary) -> None:
        self.engine = TrainEngine(library)
