"""LSTM layers with highway gates, in alternating directions (He et al. 2017).

A layer's output is a mix of its cell's output and its input, weighted by an additional gate r:

    h_t = r ⊙ (o ⊙ tanh c_t) + (1 − r) ⊙ W x_t,  r = σ(W_r x_t + U_r h_{t−1} + b_r)

The gate is part of the recurrence, because h_t is the input of the next step. So torch's own LSTM cannot run it, and
autograd over a loop of steps is slow. Here a layer is one differentiable operation over packed tokens: the products
with the inputs and those for the gradients of weights are computed for all tokens at once, and the backward pass
through time is written by hand. The cell itself is that of the biLM's training engine.

Notation: B sequences, T tokens of the longest, N packed tokens, n rows of a step, E width of the input, H of the cell.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from elmokit.model.engines.choose import training_cell
from elmokit.model.packing import Packing


class InterleavedLstm(nn.Module):
    """Highway LSTM layers; the first reads forward, the second backward, and so on.

    Dropout on a layer's output has one mask per sequence, for the next layer and the recurrence.
    """

    def __init__(self, in_dim: int, hidden_dim: int, *, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        widths = [in_dim, *[hidden_dim] * (num_layers - 1)]
        self.layers = nn.ModuleList(HighwayLayer(width, hidden_dim) for width in widths)
        self.dropout = dropout
        self.dim = hidden_dim
        """Width of the output."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """From (B, T, E) to (B, T, H); zeros where the mask (B, T) is False."""
        packing = Packing.from_mask(mask)
        batch_sizes = tuple(n for n in packing.batch_sizes if n)
        places = torch.empty(mask.numel(), dtype=torch.long, device=mask.device)  # (B·T,)
        places[packing.forward_index] = torch.arange(len(packing.forward_index), device=mask.device)
        turn = places[packing.backward_index]  # (N,): from either order to the other
        packed = x.flatten(0, 1)[packing.forward_index]  # (N, E)
        for number, layer in enumerate(self.layers):
            packed = layer(packed, batch_sizes, self._draw(packed, len(mask)), turn if number else None)
        index = packing.forward_index if len(self.layers) % 2 else packing.backward_index  # (N,)
        return packed.new_zeros(mask.numel(), self.dim).index_copy(0, index, packed).view(*mask.shape, -1)

    def _draw(self, like: Tensor, num_rows: int) -> Tensor | None:
        """The dropout factors of a layer's outputs, one row per sequence."""
        if not self.training or not self.dropout:
            return None
        return like.new_empty(num_rows, self.dim).bernoulli_(1 - self.dropout) / (1 - self.dropout)  # (B, H)


class HighwayLayer(nn.Module):
    """One layer; every block of its matrices is initialized orthonormal, the forget gate's bias with 1.

    Blocks are in the order i, f, o, j (as in `elmokit.model.cell`), r, and W, which has neither recurrence nor bias.
    """

    def __init__(self, in_dim: int, hidden_dim: int) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(_orthonormal(in_dim, hidden_dim, 6))  # (E, 6H)
        self.recurrent_weight = nn.Parameter(_orthonormal(hidden_dim, hidden_dim, 5))  # (H, 5H)
        self.bias = nn.Parameter(torch.zeros(5 * hidden_dim))  # (5H,)
        with torch.no_grad():
            self.bias[hidden_dim : 2 * hidden_dim] = 1

    def forward(
        self, x: Tensor, batch_sizes: Sequence[int], kept: Tensor | None = None, turn: Tensor | None = None
    ) -> Tensor:
        """Outputs (N, H) from packed tokens (N, E).

        Args:
            x: the tokens, step by step (see `elmokit.model.packing`).
            batch_sizes: rows of each step, at least one.
            kept: dropout factors of each row's outputs (B, H), longest row first; None for no dropout.
            turn: the positions in x of the tokens to read (N,), an order that is its own inverse; None keeps the order.
        """
        y: Tensor = _Layer.apply(
            x, self.input_weight, self.recurrent_weight, self.bias, kept, turn, tuple(batch_sizes)
        )  # (N, H)
        return y


def _orthonormal(rows: int, columns: int, num_blocks: int) -> Tensor:
    return torch.cat([nn.init.orthogonal_(torch.empty(rows, columns)) for _ in range(num_blocks)], 1)


class _Layer(torch.autograd.Function):
    """The steps of a layer, and their backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        input_weight: Tensor,
        recurrent_weight: Tensor,
        bias: Tensor,
        kept: Tensor | None,
        turn: Tensor | None,
        batch_sizes: tuple[int, ...],
    ) -> Tensor:
        """Outputs (N, H) from packed tokens (N, E)."""
        x = x if turn is None else x[turn]  # (N, E)
        width = len(recurrent_weight)
        first, second, third = input_weight.split((4 * width, width, width), 1)  # (E, 4H), (E, H), (E, H)
        to_gates, to_r = (part.contiguous() for part in recurrent_weight.split((4 * width, width), 1))
        gates = torch.addmm(bias[: 4 * width], x, first)  # (N, 4H), activations after their step
        r = torch.addmm(bias[4 * width :], x, second)  # (N, H), likewise
        through = x @ third  # (N, H)
        c, tanh_c, out, y = (torch.empty_like(r) for _ in range(4))  # 4 × (N, H)
        cell = training_cell(x)
        for step, before in _steps(batch_sizes):
            if before is None:
                c[step] = 0
            else:
                c[step] = c[before]
                gates[step].addmm_(y[before], to_gates)
                r[step].addmm_(y[before], to_r)
            cell.activate(gates[step], c[step], tanh_c[step], out[step], None)
            torch.lerp(through[step], out[step], r[step].sigmoid_(), out=y[step])
            if kept is not None:
                y[step].mul_(kept[: step.stop - step.start])
        ctx.save_for_backward(x, input_weight, recurrent_weight, gates, r, through, c, tanh_c, out, y, kept, turn)
        ctx.batch_sizes = batch_sizes
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the tokens and the weights."""
        x, input_weight, recurrent_weight, gates, r, through, c, tanh_c, out, y, kept, turn = ctx.saved_tensors
        width, steps = r.shape[1], list(_steps(ctx.batch_sizes))
        from_gates, from_r = recurrent_weight.T.contiguous().split((4 * width, width))  # (4H, H), (H, H)
        slope = (out - through) * r * (1 - r)  # (N, H): of y by the input of the sigmoid of r
        dy = dy.clone(memory_format=torch.contiguous_format)  # (N, H)
        dgates, dr = torch.empty_like(gates), torch.empty_like(r)  # (N, 4H), (N, H)
        zeros = r.new_zeros(ctx.batch_sizes[0], width)  # (B, H)
        dc = zeros.clone()  # (B, H)
        cell = training_cell(x)
        for step, before in reversed(steps):
            n = step.stop - step.start
            if kept is not None:
                dy[step].mul_(kept[:n])
            torch.mul(dy[step], slope[step], out=dr[step])
            before_c = zeros if before is None else c[before]  # (n, H)
            cell.differentiate(gates[step], before_c, tanh_c[step], dy[step] * r[step], dc[:n], dgates[step], None)
            if before is not None:
                dy[before].addmm_(dgates[step], from_gates).addmm_(dr[step], from_r)
        dblocks = torch.cat([dgates, dr, dy * (1 - r)], 1)  # (N, 6H)
        last = [y[before] for _, before in steps if before is not None]
        drecurrent = (
            torch.cat(last).T @ dblocks[ctx.batch_sizes[0] :, : 5 * width]
            if last
            else torch.zeros_like(recurrent_weight)
        )  # (H, 5H)
        dx = dblocks @ input_weight.T if ctx.needs_input_grad[0] else None  # (N, E)
        dx = dx if dx is None or turn is None else dx[turn]
        return dx, x.T @ dblocks, drecurrent, dblocks[:, : 5 * width].sum(0), None, None, None


def _steps(batch_sizes: Sequence[int]) -> Iterator[tuple[slice, slice | None]]:
    """The tokens of each step, and those of the same rows in the previous step."""
    last = None
    for begin, end in pairwise(accumulate(batch_sizes, initial=0)):
        yield slice(begin, end), None if last is None else slice(last, last + end - begin)
        last = begin
