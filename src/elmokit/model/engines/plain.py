"""The reference: the cell's equations in a loop, differentiable, on any device and in any precision."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmokit.model.cell import LayerWeights, lstm_cell


class PlainEngine:
    """One step after the other, nothing rearranged."""

    def run_layer(
        self,
        weights: LayerWeights,
        x: Tensor,
        batch_sizes: Sequence[int],
        h: Tensor,
        c: Tensor,
        index: Tensor | None = None,
        starts: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Engine.run_layer`."""
        x = x if index is None else x[index]  # (N, P)
        first_h, first_c, outputs, place = h, c, [], 0
        for step, n in zip(torch.split(x, list(batch_sizes)), batch_sizes, strict=True):
            if starts is not None:
                new = starts[place : place + n, None]  # (n, 1)
                h = torch.cat([torch.where(new, first_h[:n], h[:n]), h[n:]])  # (B, P)
                c = torch.cat([torch.where(new, first_c[:n], c[:n]), c[n:]])  # (B, H)
                place += n
            gates = step @ weights.input_weight + h[:n] @ weights.recurrent_weight + weights.bias  # (n, 4H)
            new_h, new_c = lstm_cell(gates, c[:n], weights)  # (n, P), (n, H)
            outputs.append(new_h)
            h = torch.cat([new_h, h[n:]])  # (B, P)
            c = torch.cat([new_c, c[n:]])  # (B, H)
        y = torch.cat(outputs) if outputs else x.new_empty(0, h.shape[1])  # (N, P)
        return y, h, c
