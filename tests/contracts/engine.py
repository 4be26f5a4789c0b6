"""What every engine must do: the plain engine's numbers, state and gradients, for every kind of layer."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from elmokit.model.cell import LayerWeights
from elmokit.model.engines import Engine
from elmokit.model.engines.plain import PlainEngine

LAYERS = {
    "projected": (6, 3, 0.4, 0.2),
    "unclipped": (6, 3, None, None),
    "unprojected": (4, None, 0.5, None),
}
BATCHES = {
    "single": (1,) * 5,
    "few rows": (2, 2, 2, 1, 1),
    "equal": (4, 4, 4),
    "shrinking": (5, 4, 4, 1),
    "one step": (7, 0),
    "empty": (),
}


def build_layer(kind: str, dtype: torch.dtype) -> LayerWeights:
    cell_dim, projection_dim, cell_clip, projection_clip = LAYERS[kind]
    width = projection_dim or cell_dim
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype).requires_grad_()

    projection = draw(cell_dim, projection_dim) if projection_dim else None
    return LayerWeights(
        draw(width, 4 * cell_dim), draw(width, 4 * cell_dim), draw(4 * cell_dim), projection, cell_clip, projection_clip
    )


class EngineContract:
    """Subclass with an `engine` and, where it only infers, `differentiable = False`."""

    engine: Engine
    differentiable = True
    dtype = torch.float64
    tolerance = 1e-12

    @pytest.mark.parametrize("kind", LAYERS)
    @pytest.mark.parametrize("batch", BATCHES)
    @pytest.mark.parametrize("extra", ["", "index", "starts", "index and starts"])
    def test_equals_the_plain_engine(self, kind: str, batch: str, extra: str) -> None:
        weights = build_layer(kind, self.dtype)
        sizes = tuple(size for size in BATCHES[batch] if size)
        inputs = self.inputs(weights, sizes)
        generator = torch.Generator().manual_seed(3)
        total = sum(sizes)
        options: dict[str, Any] = {
            "index": torch.randint(0, max(1, total // 2), (total,), generator=generator) if "index" in extra else None,
            "starts": torch.rand(total, generator=generator) < 0.4 if "starts" in extra else None,
        }
        with torch.set_grad_enabled(self.differentiable):
            got = self.engine.run_layer(weights, inputs[0], sizes, *inputs[1:], **options)
            expected = PlainEngine().run_layer(weights, inputs[0], sizes, *inputs[1:], **options)
        for ours, plain in zip(got, expected, strict=True):
            torch.testing.assert_close(ours, plain, atol=self.tolerance, rtol=self.tolerance)
        if self.differentiable:
            self.compare_gradients(weights, inputs, got, expected)

    def inputs(self, weights: LayerWeights, sizes: tuple[int, ...]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(2)
        width, cell_dim = weights.input_weight.shape[0], weights.bias.shape[0] // 4
        rows = max(sizes, default=2) + 1  # a row that takes part in no step keeps its state
        shapes = [(sum(sizes), width), (rows, width), (rows, cell_dim)]
        return [torch.randn(*s, generator=generator, dtype=self.dtype).requires_grad_() for s in shapes]

    def compare_gradients(
        self, weights: LayerWeights, inputs: list[Tensor], got: Sequence[Tensor], expected: Sequence[Tensor]
    ) -> None:
        tensors = [*(w for w in weights if isinstance(w, Tensor)), *inputs]
        sides = []
        for outputs in (got, expected):
            parts = [(out * torch.arange(1, out.numel() + 1).view_as(out).sin()).sum() for out in outputs]
            total = torch.stack(parts).sum()
            sides.append(torch.autograd.grad(total, tensors, allow_unused=True, retain_graph=True))
        for ours, plain in zip(*sides, strict=True):
            if plain is None:
                assert ours is None or not ours.any()
            else:
                torch.testing.assert_close(ours, plain, atol=self.tolerance, rtol=self.tolerance)
