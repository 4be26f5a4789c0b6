"""`Elmo`: a biLM with mixes on top, as a module of a task model."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmokit.arguments import check_flag, check_integer, is_path, shown
from elmokit.errors import ConfigError, InputError
from elmokit.formats import load
from elmokit.model.bilm import BiLM, BiLMState
from elmokit.model.elmo import ElmoMixes
from elmokit.model.scalar_mix import MOST, LayerNorm


class ElmoOutput(NamedTuple):
    """The output of `Elmo` for a batch."""

    representations: tuple[Tensor, ...]  # each (B, T, 2P)
    mask: Tensor  # (B, T)
    state: BiLMState


class Elmo(nn.Module):
    """A biLM and its mixes, from character ids to representations.

    Args:
        bilm: a loaded or new biLM, which is shared, not copied; or anything that `elmokit.load` accepts.
        num_outputs: number of mixes to learn, at least 1; see `ElmoMixes`.
        dropout: see `ElmoMixes`.
        layer_norm: see `ScalarMix`.
        trainable: also train the biLM; by default it is frozen: its parameters no longer require gradients.
        keep_boundaries: keep the vectors of `<S>` and `</S>`.
    """

    def __init__(
        self,
        bilm: BiLM | str | Path,
        *,
        num_outputs: int = 1,
        dropout: float = 0.5,
        layer_norm: LayerNorm = False,
        trainable: bool = False,
        keep_boundaries: bool = False,
    ) -> None:
        super().__init__()
        check_integer("num_outputs", num_outputs, at_least=1, at_most=MOST)
        self.trainable = check_flag("trainable", trainable)
        self.keep_boundaries = check_flag("keep_boundaries", keep_boundaries)
        if is_path(bilm):
            bilm = load(bilm)
        if not isinstance(bilm, BiLM):
            raise ConfigError(f"Elmo() was given {shown(bilm)}: give a loaded model, or the name or path of one.")
        if not trainable:
            bilm.requires_grad_(False)
        self.bilm = bilm
        self.mixes = ElmoMixes(bilm.config.num_layers, num_outputs, dropout=dropout, layer_norm=layer_norm)

    def regularization(self, strength: float) -> Tensor:
        """λ‖w‖² over all mixes, to add to the task's loss."""
        return self.mixes.regularization(strength)

    def forward(self, char_ids: Tensor, state: BiLMState | None = None) -> ElmoOutput:
        """Compute representations of ids (B, T, C), or (B, K, T, C) for K sentences in each of B examples.

        In the second case, representations are (B, K, T, 2P), the mask is (B, K, T), and the state has B·K rows.
        """
        if not isinstance(char_ids, Tensor) or char_ids.dim() not in (3, 4):
            shape = f"have shape {tuple(char_ids.shape)}" if isinstance(char_ids, Tensor) else f"are {shown(char_ids)}"
            raise InputError(
                f"char_ids {shape}: give a tensor (B, T, C) or (B, K, T, C), as bilm.to_char_ids(sentences) makes it."
            )
        with torch.set_grad_enabled(self.trainable and torch.is_grad_enabled()):
            layers, mask, state = self.bilm(char_ids.flatten(0, -3), state, keep_boundaries=self.keep_boundaries)
        representations = self.mixes(layers, mask)
        if char_ids.dim() == 4:
            representations = tuple(r.unflatten(0, char_ids.shape[:2]) for r in representations)
            mask = mask.unflatten(0, char_ids.shape[:2])
        return ElmoOutput(representations, mask, state)
