"""The vectors of a window's distinct tokens, which both directions share, and their gradients.

With the native library, the tokens are encoded in two halves, so that two threads share the work. The halves are the
same with one thread.

Notation: K distinct tokens, C columns of a token's row, P width of a direction.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from elmokit.model.char_encoder import TypeEncoder, used_columns

_HALVES = 2

Encode = Callable[[Tensor], Tensor]
Result = TypeVar("Result")


class Both(Protocol):
    """Runs a function for 0 and for 1, possibly in two threads."""

    def __call__(self, run: Callable[[int], Result], /) -> tuple[Result, Result]:
        """Both results."""


class TypeVectors:
    """The vectors of distinct tokens.

    Args:
        encoder: the encoder whose parameters receive the gradients.
        types: rows (K, C) of the tokens.
        encode: computes the vectors of some rows; None uses the encoder, without halves.
        both: runs both halves.
        cast: the precision that torch chooses for products of the encoder.
    """

    def __init__(
        self, encoder: TypeEncoder, types: Tensor, encode: Encode | None, both: Both, cast: AbstractContextManager[Any]
    ) -> None:
        self._parameters = [parameter for parameter in encoder.parameters() if parameter.requires_grad]
        self._both = both
        order = used_columns(types).argsort(
            stable=True
        )  # (K,): both halves have words of all lengths, short ones first
        self._rows = [order] if encode is None else [order[half::_HALVES] for half in range(_HALVES)]
        if encode is None:
            with cast:
                self._parts: Sequence[Tensor] = [encoder.encode_by_length(types[order])[1]]
        else:
            self._parts = both(lambda half: encoder.encode_by_length(types[self._rows[half]], encode)[1])
        self.wants_gradient = self._parts[0].requires_grad
        first = self._parts[0]
        self.vectors = torch.empty(len(types), first.shape[1], dtype=first.dtype, device=first.device)
        """The vectors (K, P) in the order of the rows, without history."""
        for rows, part in zip(self._rows, self._parts, strict=True):
            self.vectors[rows] = part.detach()

    def backward(self, gradient: Tensor) -> None:
        """Add the parameters' gradients, from that (K, P) of the vectors."""

        def run(half: int) -> Sequence[Tensor | None]:
            part = self._parts[half]
            return torch.autograd.grad(
                part, self._parameters, gradient[self._rows[half]].to(part.dtype), allow_unused=True
            )

        for gradients in self._both(run) if len(self._parts) > 1 else (run(0),):
            accumulate(self._parameters, gradients)


def accumulate(parameters: Sequence[nn.Parameter], gradients: Sequence[Tensor | None]) -> None:
    """Add gradients to those of the parameters, in their memory layout, which torch's fused AdamW relies on."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None:
            gradient = gradient if gradient.is_sparse else gradient.contiguous()
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
