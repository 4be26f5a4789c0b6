"""The exact loss: −log p of every target by the full or the adaptive softmax, summed.

The loss processes a few predictions at a time and computes its gradients in the forward pass, so memory does not grow
with the window.

Notation: N predictions, n of a chunk, P width of a direction, V words.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmokit.model.softmax import Softmax

_CHUNK_SCORES = 2**21
"""Scores computed at a time: 8 MB, for which a core's cache is still useful."""
_LEAST_ROWS = 16
"""Minimum number of predictions computed at a time: with fewer, most time is spent reading the matrix."""


def full_loss(h: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """−log p summed over all predictions: outputs (N, P), ids (N,), and the softmax (V, P), (V,)."""
    loss: Tensor = _FullLoss.apply(h, weight, bias, targets)
    return loss


def softmax_loss(h: Tensor, targets: Tensor, softmax: Softmax, token_table: Tensor | None) -> Tensor:
    """The exact loss of a model's own softmax, plain or adaptive."""
    total = h.new_zeros(())
    for inside, outcomes, weight, bias in softmax.decisions(targets, token_table):
        total = total + full_loss(h if inside is None else h[inside], outcomes, weight, bias)
    return total


class _FullLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        total = h.new_zeros(())
        wants_h, wants_weight, wants_bias, _ = ctx.needs_input_grad
        dh = torch.empty_like(h) if wants_h else None
        dweight = torch.zeros_like(weight) if wants_weight else None
        dbias = torch.zeros_like(bias) if wants_bias else None
        for rows in chunks(len(h), len(weight)):
            logits = torch.addmm(bias, h[rows], weight.T)  # (n, V)
            own = targets[rows, None]  # (n, 1)
            normalizer = logits.logsumexp(1, keepdim=True)  # (n, 1)
            total += (normalizer - logits.gather(1, own)).sum()
            if not any(ctx.needs_input_grad):
                continue
            p = logits.sub_(normalizer).exp_()  # (n, V)
            p.scatter_add_(1, own, p.new_full((len(p), 1), -1.0))
            if dh is not None:
                dh[rows] = p @ weight
            if dweight is not None:
                dweight.addmm_(p.T, h[rows])
            if dbias is not None:
                dbias += p.sum(0)
        ctx.save_for_backward(dh, dweight, dbias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None if tensor is None else tensor * scale for tensor in ctx.saved_tensors), None)


def chunks(num_rows: int, num_scores: int) -> Iterator[slice]:
    """Slices of the predictions whose scores are computed together."""
    size = max(_LEAST_ROWS, _CHUNK_SCORES // num_scores)
    for begin in range(0, num_rows, size):
        yield slice(begin, min(begin + size, num_rows))
