"""The word predictor on top of both directions, which share it."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear


class Softmax(nn.Module):
    """A row and a bias for each of V words; a tied one has no rows of its own and borrows the token table."""

    def __init__(self, *, vocab_size: int, dim: int, tied: bool = False) -> None:
        super().__init__()
        self.weight = None if tied else nn.Parameter(torch.empty(vocab_size, dim))
        self.bias = nn.Parameter(torch.empty(vocab_size))

    def initialize(self, generator: torch.Generator) -> None:
        """Draw bilm-tf's initial values; a tied table is the encoder's to draw."""
        if self.weight is not None:
            nn.init.normal_(self.weight, 0, 1 / math.sqrt(self.weight.shape[1]), generator)
        nn.init.zeros_(self.bias)

    def forward(self, h: Tensor, token_table: Tensor | None = None) -> Tensor:
        """Logits (…, V) of top-layer outputs (…, P) of either direction."""
        weight = token_table if self.weight is None else self.weight
        assert weight is not None
        return linear(h, weight, self.bias)
