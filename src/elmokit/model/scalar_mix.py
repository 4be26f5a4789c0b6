"""ELMo's combination of layers: γ · Σ softmax(w)_j · layer_j."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from elmokit.arguments import check_flag, check_integer, check_number, shown
from elmokit.errors import ConfigError, InputError

MOST = 10_000
"""Maximum number of layers or mixes: far more than any model has, but few enough to fit in memory."""
LayerNorm = bool | Literal["token", "batch"]


class ScalarMix(nn.Module):
    """One learned weighting of the layers, starting from their plain average.

    Args:
        layer_norm: normalize each layer first. True or "token": each token's vector by its own mean and variance, so
            that the result for a sentence never depends on its batch. "batch": one mean and variance per layer over all
            real tokens of the batch, as AllenNLP does.
        initial_weights: the unnormalized initial weights; None means all zero.
    """

    def __init__(
        self,
        num_layers: int,
        *,
        layer_norm: LayerNorm = False,
        initial_weights: Sequence[float] | None = None,
        trainable: bool = True,
        eps: float = 1e-12,
    ) -> None:
        super().__init__()
        check_integer("num_layers", num_layers, at_least=1, at_most=MOST)
        check_flag("trainable", trainable)
        check_number("eps", eps, at_least=0)
        if not isinstance(layer_norm, bool | str) or layer_norm not in (False, True, "token", "batch"):
            raise ConfigError(f"layer_norm ({shown(layer_norm)}) must be False, True, 'token' or 'batch'.")
        self.layer_norm: Literal["token", "batch"] | None = "token" if layer_norm is True else layer_norm or None
        self.eps = eps
        start = torch.zeros(num_layers) if initial_weights is None else _checked_weights(initial_weights, num_layers)
        self.weights = nn.Parameter(start, requires_grad=trainable)  # (L,)
        self.gamma = nn.Parameter(torch.ones(()), requires_grad=trainable)

    @property
    def layer_weights(self) -> Tensor:
        """The share of each layer (L,), summing to 1."""
        return self.weights.softmax(0)

    def regularization(self, strength: float) -> Tensor:
        """λ‖w‖²: a large λ keeps the mix near the average, a small one lets it choose."""
        return check_number("strength", strength, at_least=0) * self.weights.square().sum()

    def forward(self, layers: Tensor, mask: Tensor | None = None) -> Tensor:
        """From layers (L, B, T, D) and mask (B, T), which only layer norm "batch" needs, to their mix (B, T, D)."""
        if not isinstance(layers, Tensor) or layers.dim() != 4:
            given = f"shape {tuple(layers.shape)}" if isinstance(layers, Tensor) else shown(layers)
            raise InputError(f"layers are a tensor (L, B, T, D), not {given}: give the layers of a biLM's output.")
        if layers.shape[0] != len(self.weights):
            raise InputError(f"{layers.shape[0]} layers were given to a mix of {len(self.weights)}.")
        if self.layer_norm is not None:
            layers = self._normalize(layers, mask)  # (L, B, T, D)
        if not layers.is_floating_point():
            raise InputError(f"layers are {layers.dtype}: give floating-point numbers, as a biLM does.")
        mixed: Tensor = torch.tensordot(self.layer_weights.to(layers.dtype), layers, dims=1)  # (B, T, D)
        return self.gamma.to(layers.dtype) * mixed

    def _normalize(self, layers: Tensor, mask: Tensor | None) -> Tensor:
        if self.layer_norm == "token":
            mean = layers.mean(-1, keepdim=True)  # (L, B, T, 1)
            variance = layers.var(-1, correction=0, keepdim=True)  # (L, B, T, 1)
        else:
            if not isinstance(mask, Tensor) or mask.shape != layers.shape[1:3]:
                given = f"shape {tuple(mask.shape)}" if isinstance(mask, Tensor) else shown(mask)
                raise InputError(f"mask is a tensor (B, T), here {tuple(layers.shape[1:3])}, not {given}.")
            real = mask[..., None].to(layers.dtype)  # (B, T, 1)
            count = real.sum() * layers.shape[-1]
            mean = (layers * real).sum((1, 2, 3), keepdim=True) / count  # (L, 1, 1, 1)
            variance = (((layers - mean) * real) ** 2).sum((1, 2, 3), keepdim=True) / count  # (L, 1, 1, 1)
        return (layers - mean) / (variance + self.eps).sqrt()


def _checked_weights(weights: Sequence[float], num_layers: int) -> Tensor:
    try:
        start = torch.as_tensor(weights, dtype=torch.float).detach().clone()  # (L,)
    except (TypeError, ValueError, RuntimeError):
        raise ConfigError(f"initial_weights ({shown(weights)}) must be {num_layers} numbers, one per layer.") from None
    if start.shape != (num_layers,):
        raise ConfigError(
            f"initial_weights has {start.numel()} values, but there are {num_layers} layers: give one per layer."
        )
    if not start.isfinite().all():
        raise ConfigError(f"initial_weights ({shown(weights)}) must be finite numbers.")
    return start
