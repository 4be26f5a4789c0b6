"""The task-side part of ELMo: `ElmoMixes` turns layers into representations."""

import torch
from torch import Tensor, nn

from elmokit.arguments import check_integer, check_number
from elmokit.model.scalar_mix import MOST, LayerNorm, ScalarMix


class ElmoMixes(nn.Module):
    """Several mixes of the same layers, each for its own place in a task model; all task-side parameters of ELMo.

    Args:
        num_layers: number of layers of the biLM, including layer 0.
        num_outputs: number of mixes: one for the input, a second one if ELMo is also added at the output; 0 for a task
            model of the same shape without ELMo.
        dropout: dropout rate on each representation, in training; at least 0 and below 1.
        layer_norm: see `ScalarMix`.
    """

    def __init__(
        self, num_layers: int, num_outputs: int = 1, *, dropout: float = 0.5, layer_norm: LayerNorm = False
    ) -> None:
        super().__init__()
        check_integer("num_outputs", num_outputs, at_least=0, at_most=MOST)
        check_number("dropout", dropout, at_least=0, below=1)
        self.mixes = nn.ModuleList(ScalarMix(num_layers, layer_norm=layer_norm) for _ in range(num_outputs))
        self.dropout = nn.Dropout(dropout)

    def regularization(self, strength: float) -> Tensor:
        """λ‖w‖² over all mixes, to add to the task's loss."""
        check_number("strength", strength, at_least=0)
        return torch.stack([mix.regularization(strength) for mix in self._mixes()] or [torch.zeros(())]).sum()

    def forward(self, layers: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """From layers (L, B, T, 2P) and mask (B, T) to one representation (B, T, 2P) per mix."""
        return tuple(self.dropout(mix(layers, mask)) for mix in self._mixes())

    def _mixes(self) -> list[ScalarMix]:
        return [mix for mix in self.mixes if isinstance(mix, ScalarMix)]
