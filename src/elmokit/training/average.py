"""A running average of the weights (EMA), which is often better than the weights of any one step."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

_EVERY = 8
"""Steps between updates; an update at every step would cost several percent of a small model's time."""


class WeightAverage:
    """An exponential moving average of parameters.

    At first the average covers fewer steps than `decay` implies, so that it soon forgets the initial weights.

    Args:
        decay: share of the average that is kept at each step.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], decay: float) -> None:
        self._parameters = list(parameters)
        self._decay = decay
        self._average = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Add the weights after step `step`, counted from 1."""
        if step % _EVERY == 0:
            decay = min(self._decay, (1 + step) / (10 + step))
            torch._foreach_lerp_(self._average, [p.detach() for p in self._parameters], 1 - decay**_EVERY)

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Use the average as the weights of the model inside the block."""
        self._trade_places()
        try:
            yield
        finally:
            self._trade_places()

    @torch.no_grad()
    def _trade_places(self) -> None:
        for parameter, average in zip(self._parameters, self._average, strict=True):
            kept = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(kept)

    def state_dict(self) -> dict[str, Any]:
        """The average, for a checkpoint."""
        return {"average": self._average}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the average from a checkpoint."""
        tensors: list[Tensor] = state["average"]
        with torch.no_grad():
            for average, saved in zip(self._average, tensors, strict=True):
                average.copy_(saved)

    def restart(self) -> None:
        """Restart the average from the current weights."""
        with torch.no_grad():
            for parameter, average in zip(self._parameters, self._average, strict=True):
                average.copy_(parameter)
