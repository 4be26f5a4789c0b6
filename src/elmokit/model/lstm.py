"""One direction of the biLM: the weights of its layers, and its input and output state.

Notation: B rows, N packed tokens, P output width, H cell width.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmokit.model.cell import LayerWeights
from elmokit.model.engines import Engine
from elmokit.model.engines.plain import PlainEngine


class LstmState(NamedTuple):
    """The state of every layer of one direction, for each row: output and memory after the row's last token."""

    h: Tensor  # (num_layers, B, P), before any skip connection
    c: Tensor  # (num_layers, B, H)

    def select(self, rows: Tensor) -> "LstmState":
        """The state of some rows, in their order."""
        return LstmState(self.h[:, rows], self.c[:, rows])

    def detach(self) -> "LstmState":
        """The same values without history: gradients never flow into a carried state."""
        return LstmState(self.h.detach(), self.c.detach())


class LstmLayer(nn.Module):
    """The weights of one layer; gates are packed i, f, o, j."""

    def __init__(
        self,
        *,
        cell_dim: int,
        projection_dim: int | None,
        cell_clip: float | None,
        projection_clip: float | None,
        forget_bias: float,
    ) -> None:
        super().__init__()
        output_dim = projection_dim or cell_dim
        self.cell_dim = cell_dim
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.forget_bias = forget_bias
        self.input_weight = nn.Parameter(torch.empty(output_dim, 4 * cell_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(output_dim, 4 * cell_dim))
        self.bias = nn.Parameter(torch.empty(4 * cell_dim))
        self.projection_weight = nn.Parameter(torch.empty(cell_dim, projection_dim)) if projection_dim else None

    def initialize(self, generator: torch.Generator) -> None:
        """Glorot uniform over the joint (input + recurrent) matrix and the projection, zero bias, as in bilm-tf."""
        for weight in (self.input_weight, self.recurrent_weight):
            bound = math.sqrt(6 / (2 * weight.shape[0] + weight.shape[1]))
            nn.init.uniform_(weight, -bound, bound, generator)
        nn.init.zeros_(self.bias)
        if self.projection_weight is not None:
            nn.init.xavier_uniform_(self.projection_weight, generator=generator)

    def weights(self) -> LayerWeights:
        """The tensors as the cell uses them, with the forget bias added."""
        bias: Tensor = self.bias  # (4H,)
        if self.forget_bias:
            offset = torch.zeros_like(bias)  # (4H,)
            offset[self.cell_dim : 2 * self.cell_dim] = self.forget_bias
            bias = bias + offset
        return LayerWeights(
            self.input_weight, self.recurrent_weight, bias, self.projection_weight, self.cell_clip, self.projection_clip
        )


class Lstm(nn.Module):
    """The layers of one direction over tokens packed in reading order (see `elmokit.model.packing`)."""

    def __init__(self, layers: Sequence[LstmLayer], *, skip_connections: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.skip_connections = skip_connections

    def zero_state(self, num_rows: int) -> LstmState:
        """The initial state."""
        layer = self.layers[0]
        assert isinstance(layer, LstmLayer)
        like = layer.recurrent_weight  # (P, 4H)
        depth = len(self.layers)
        return LstmState(
            like.new_zeros(depth, num_rows, like.shape[0]), like.new_zeros(depth, num_rows, layer.cell_dim)
        )

    def forward(
        self,
        x: Tensor,
        batch_sizes: Sequence[int],
        state: LstmState,
        *,
        index: Tensor | None = None,
        starts: Tensor | None = None,
        num_layers: int | None = None,
        dropout: Callable[[Tensor], Tensor] | None = None,
        engine: Engine | None = None,
    ) -> tuple[list[Tensor], LstmState]:
        """Outputs (N, P) of every layer, lowest first, and the state after each row's last token.

        Args:
            x: the packed token vectors (N, P); with `index`, the vectors of distinct tokens (K, P).
            batch_sizes: number of active rows at each step.
            state: initial state of each row.
            index: row of x for each packed token (N,).
            starts: which packed tokens (N,) begin a sentence; before them, the row is reset to `state`.
            num_layers: number of layers to run, from the lowest; None runs all.
            dropout: applied to the input of every layer; the skip connection adds the dropped-out input, and neither
                affects the recurrence.
            engine: executes a layer; None uses the plain reference.
        """
        engine = engine or PlainEngine()
        outputs, last_h, last_c = [], [], []
        for depth, layer in enumerate(list(self.layers)[:num_layers]):
            assert isinstance(layer, LstmLayer)
            if dropout is not None:
                x, index = dropout(x if index is None else x[index]), None  # (N, P)
            y, h, c = engine.run_layer(
                layer.weights(), x, batch_sizes, state.h[depth], state.c[depth], index=index, starts=starts
            )
            index = None
            x = y + x if depth > 0 and self.skip_connections else y  # (N, P)
            outputs.append(x)
            last_h.append(h)
            last_c.append(c)
        return outputs, LstmState(torch.stack(last_h), torch.stack(last_c))
