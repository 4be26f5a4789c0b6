"""The task side of ELMo: `ElmoMixes` turn layers into representations; `Elmo` is a biLM with mixes on top."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmokit.errors import InputError
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.scalar_mix import LayerNorm, ScalarMix


class ElmoMixes(nn.Module):
    """Several mixes of the same layers, each for its own place in a task model; all task-side parameters of ELMo.

    Args:
        num_layers: layers of the biLM, layer 0 included.
        num_outputs: mixes to learn: one for the input, a second one if ELMo also goes to the output.
        dropout: on each representation, in training.
        layer_norm: see `ScalarMix`.
    """

    def __init__(
        self, num_layers: int, num_outputs: int = 1, *, dropout: float = 0.5, layer_norm: LayerNorm = False
    ) -> None:
        super().__init__()
        self.mixes = nn.ModuleList(ScalarMix(num_layers, layer_norm=layer_norm) for _ in range(num_outputs))
        self.dropout = nn.Dropout(dropout)

    def regularization(self, strength: float) -> Tensor:
        """λ‖w‖² over all mixes, to add to the task's loss."""
        return torch.stack([mix.regularization(strength) for mix in self._mixes()]).sum()

    def forward(self, layers: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        """From layers (L, B, T, 2P) and mask (B, T) to one representation (B, T, 2P) per mix."""
        return tuple(self.dropout(mix(layers, mask)) for mix in self._mixes())

    def _mixes(self) -> list[ScalarMix]:
        return [mix for mix in self.mixes if isinstance(mix, ScalarMix)]


class ElmoOutput(NamedTuple):
    """What `Elmo` gives for a batch."""

    representations: tuple[Tensor, ...]  # each (B, T, 2P)
    mask: Tensor  # (B, T)
    state: BiLMState


class Elmo(nn.Module):
    """A biLM and its mixes, from character ids to representations.

    Args:
        bilm: a loaded or new biLM; it is shared, not copied.
        num_outputs: see `ElmoMixes`.
        dropout: see `ElmoMixes`.
        layer_norm: see `ScalarMix`.
        trainable: let the task tune the biLM too; by default it is frozen: no gradient reaches it.
        keep_boundaries: keep the vectors of `<S>` and `</S>`.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        num_outputs: int = 1,
        dropout: float = 0.5,
        layer_norm: LayerNorm = False,
        trainable: bool = False,
        keep_boundaries: bool = False,
    ) -> None:
        super().__init__()
        self.bilm = bilm
        self.mixes = ElmoMixes(bilm.config.num_layers, num_outputs, dropout=dropout, layer_norm=layer_norm)
        self.trainable = trainable
        self.keep_boundaries = keep_boundaries

    def regularization(self, strength: float) -> Tensor:
        """λ‖w‖² over all mixes, to add to the task's loss."""
        return self.mixes.regularization(strength)

    def forward(self, char_ids: Tensor, state: BiLMState | None = None) -> ElmoOutput:
        """Representations of ids (B, T, C), or of (B, K, T, C): K sentences to each of B examples.

        In the second case representations are (B, K, T, 2P), the mask is (B, K, T), and the state has B·K rows.
        """
        if char_ids.dim() not in (3, 4):
            raise InputError(f"char_ids have shape {tuple(char_ids.shape)}: give (B, T, C) or (B, K, T, C).")
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            layers, mask, state = self.bilm(char_ids.flatten(0, -3), state, keep_boundaries=self.keep_boundaries)
        representations = self.mixes(layers, mask)
        if char_ids.dim() == 4:
            representations = tuple(r.unflatten(0, char_ids.shape[:2]) for r in representations)
            mask = mask.unflatten(0, char_ids.shape[:2])
        return ElmoOutput(representations, mask, state)
